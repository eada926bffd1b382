"""Which commands there are, each imported when it is wanted: ``volvelle queue`` is asked often."""

import inspect
import re
from collections.abc import Iterator, Mapping, MutableMapping
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from volvelle.cli.options import AnyCommand, complete
from volvelle.model.problems import Problem

_PANELS: Mapping[str, Mapping[str, str]] = {
    "Simulate and compare": {
        "compare": "compare:compare",
        "simulate": "simulate:simulate",
        "report": "report:report",
        "dashboard": "dashboard:dashboard",
        "trace": "trace:app",
        "list": "listing:list_parts",
    },
    "Tune": {"tune": "tune:tune"},
    "Jobs on a cluster": {
        "submit": "submit:submit",
        "queue": "jobs:queue",
        "why": "jobs:why",
        "logs": "jobs:logs",
        "history": "jobs:history",
        "change": "jobs:change",
        "hold": "jobs:hold",
        "release": "jobs:release",
        "requeue": "jobs:requeue",
        "cancel": "jobs:cancel",
    },
    "Run a cluster": {
        "serve": "serve:serve",
        "agent": "agent:agent",
        "nodes": "nodes:app",
        "policy": "policy:app",
        "token": "tokens:app",
        "journal": "journal:journal",
        "snapshot": "journal:snapshot",
        "backup": "backup:backup",
        "restore": "backup:restore",
    },
    "Beside Slurm or Kueue": {"site": "site:app"},
    "Reproduce papers": {"reproduce": "reproduce:reproduce"},
}
"""By panel and name, in the order of the help: the module of this package, and the function or group in it.

Commands that published systems bring come after these, in the panel that their module names (``PANEL``).
"""
_MODULES = {name: where for panel in _PANELS.values() for name, where in panel.items()}

_CALLED_ELSEWHERE: Mapping[str, str] = {
    name: ours
    for names, ours in (
        (
            "what-if whatif",
            "why JOB, submit --dry-run, policy set --dry-run, attach what-if, or the dashboard",
        ),
        ("status jobs list-jobs ps top squeue", "queue"),
        ("sbatch srun run", "submit, or simulate for a trace"),
        ("scancel kill stop delete rm", "cancel JOB"),
        ("sinfo node", "nodes"),
        ("sacct past", "history"),
        ("explain show job info", "why JOB"),
        ("pause suspend", "hold JOB"),
        ("resume unhold continue", "release JOB"),
        ("update edit priority", "change JOB"),
        ("describe", "trace describe"),
        ("convert", "trace convert"),
        ("generate", "trace generate"),
        ("fetch download", "trace fetch"),
        ("drain", "nodes drain"),
        ("import", "site import"),
        ("policies formats metrics placements generators", "list"),
        ("predict forecast", "submit --dry-run, or simulate --predict"),
        ("start server up", "serve"),
        ("worker", "agent"),
        ("demo", "compare --demo"),
        ("ui web", "dashboard for runs; serve prints the address of its own"),
    )
    for name in names.split()
}
"""Names that people bring, and the command to look at."""

_OWN = re.compile(r"(.+\.py)(:\w+)?")

_SETTINGS: Mapping[str, dict[str, Any]] = {"submit": {"allow_interspersed_args": False}}


class _Loaded(MutableMapping[str, Any]):
    """The commands by name; one is made when it is looked at."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            ours = _MODULES.get(name)
            self._made[name] = _made(name, f"volvelle.cli.{ours}" if ours else _brought()[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*_MODULES, *_brought()))

    def __len__(self) -> int:
        return len(_MODULES) + len(_brought())

    def __setitem__(self, name: str, command: Any) -> None:
        raise TypeError("commands are those of this module")

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands are those of this module")


class Commands(TyperGroup):
    """All of them, as Typer wants them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Loaded()

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of a line; a name from elsewhere is answered with the one to look at."""
        ours = _CALLED_ELSEWHERE.get(args[0])
        if ours is not None and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"No such command {args[0]!r}. See: volvelle {ours}")
        return super().resolve_command(ctx, args)


class _Lazy(TyperCommand):
    """A command whose options are made when they are asked for: the list of commands does without."""

    def __init__(self, name: str, function: AnyCommand, panel: str = "") -> None:
        described = inspect.getdoc(function)
        super().__init__(name, help=described, rich_markup_mode="rich", rich_help_panel=panel)
        self._function = function
        del self.params  # made by `__getattr__`

    @cached_property
    def made(self) -> Any:
        """The command with its options."""
        alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
        settings = _SETTINGS.get(self.name or "")
        alone.command(self.name, context_settings=settings)(complete(self._function))
        return typer.main.get_command(alone)

    def __getattr__(self, name: str) -> Any:
        if name != "params":
            raise AttributeError(name)
        return self.made.params

    def make_context(self, info_name: str | None, args: list[str], *given: Any, **more: Any) -> Any:
        """The context in which the command runs; a policy's file among the traces is told its option."""
        if any(one.name == "policies" for one in self.params):
            for before, word in pairwise(["", *args]):
                own = _OWN.fullmatch(word)
                if own and not before.startswith("-"):
                    raise Problem(
                        f"{word} is no trace",
                        mend=f"a policy of your own is --policy {own[1]}{own[2] or ':NAME'}",
                        usage=True,
                    )
        return self.made.make_context(info_name, args, *given, **more)


def _brought() -> dict[str, str]:
    """The commands that published systems bring; looked up only where one of these may be meant."""
    from volvelle.core.systems import modules_of

    return modules_of("commands")


def _made(name: str, where: str) -> Any:
    place, _, attribute = where.partition(":")
    module = import_module(place)
    found = getattr(module, attribute)
    panel = next((panel for panel, names in _PANELS.items() if name in names), "")
    panel = panel or getattr(module, "PANEL", "")
    if not isinstance(found, typer.Typer):
        return _Lazy(name, found, panel)
    group = typer.main.get_group(found)
    group.rich_help_panel = panel
    group.name = name
    for one in getattr(module, "COMMANDS", ()):
        group.add_command(_Lazy(one.__name__, one))
    return group
