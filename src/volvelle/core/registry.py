"""Parts by name: policies, admissions, placements, estimators, and whatever else plugs in.

A part is a pydantic model: its fields are its parameters, typed, validated, described. It becomes
known in one of three ways, all equal: a module of our own package, an entry point of somebody else's
package, or a single file named on the command line. It is written ``name``, ``name:key=value,...`` or
``path/to/file.py[:name[:key=value,...]]``; for parameters there may stand a point that a search found,
``name:front.json#balanced[,key=value,...]``, also behind a file and a name in it.
"""

import importlib
import importlib.util
import math
import pkgutil
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from volvelle.core.fronts import resolved
from volvelle.core.written import WrittenPart
from volvelle.model.problems import Problem, nearest
from volvelle.model.validation import describe_validation


class Part(BaseModel):
    """A piece of a composition: parameters are fields, identity is the class's name and source."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ClassVar[str]
    source: ClassVar[str] = ""
    """Paper and section, in a few words."""

    @model_validator(mode="after")
    def _check_numbers(self) -> Self:
        """Numbers so small or so large that sums with times lose them are mistakes, in every part."""
        for name, value in self:
            if isinstance(value, (int, float)) and not _is_moderate(value):
                raise ValueError(
                    f"{name} is {value:.3g}: write 0, or a number from {LEAST:g} to {MOST:g}"
                )
        return self

    @property
    def label(self) -> str:
        """The part as it is written: its name and the parameters that are not at their defaults."""
        changed = ",".join(
            f"{key}={_written(value)}"
            for key, value in self.model_dump(exclude_defaults=True).items()
        )
        return f"{self.name}:{changed}" if changed else self.name

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().split("\n")[0]

    def fork(self) -> Self:
        """A part that can go its own way. Parts without memory of their own are shared."""
        return self.model_copy(deep=True) if self.__private_attributes__ else self


LEAST, MOST = 1e-9, 1e15
"""Of a parameter that is a number and neither 0 nor infinite."""


def _is_moderate(value: float) -> bool:
    """Whether a parameter may be so; infinity stands for "no limit"."""
    return value == 0 or LEAST <= abs(value) <= MOST or abs(value) == math.inf


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


P = TypeVar("P", bound=Part)


class Registry(Generic[P]):
    """The parts of one kind. ``package`` holds ours, entry points of ``group`` hold others'."""

    def __init__(self, kind: str, plural: str, package: str, group: str = "") -> None:
        self.kind = kind
        self.plural = plural
        self.package = package
        self.group = group or package
        self._parts: dict[str, type[P]] = {}
        self._complete = False

    def register(self, part: type[P]) -> type[P]:
        """Make ``part`` known by its name; a class decorator."""
        known = self._parts.get(part.name)
        if known is not None and known.__qualname__ != part.__qualname__:
            raise Problem(
                f"two {self.plural} are called {part.name!r}: {_home(known)} and {_home(part)}",
                mend="rename one of them",
            )
        self._parts[part.name] = part
        return part

    def all(self) -> dict[str, type[P]]:
        """Every part known on this machine, by name."""
        if not self._complete:
            self._complete = True
            for module in pkgutil.iter_modules(importlib.import_module(self.package).__path__):
                importlib.import_module(f"{self.package}.{module.name}")
            for home in modules_of_systems(self.plural).values():
                importlib.import_module(home)
            for entry in entry_points(group=self.group):
                self.register(entry.load())
        return dict(sorted(self._parts.items()))

    def get(self, name: str) -> type[P]:
        """The part called ``name``. Raises `Problem` with the nearest name."""
        known = self.all()
        if name not in known:
            raise Problem(
                f"unknown {self.kind} {name!r}{nearest(name, known)}",
                mend=f"see: volvelle list {self.plural}",
                usage=True,
            )
        return known[name]

    def make(self, written: str) -> P:
        """The part written as ``name:key=value,...`` or as a file. Raises `Problem`."""
        home, name, rest = found = WrittenPart.read(resolved(written))
        part = self._from_file(Path(home), name) if found.in_a_file else self.get(home)
        return self.build(part, _parameters(rest, written))

    def build(self, part: type[P], parameters: dict[str, Any]) -> P:
        """``part`` with ``parameters``. Raises `Problem` naming the key, the value and the mend."""
        try:
            return part.model_validate(parameters)
        except ValidationError as error:
            raise Problem(
                f"{self.kind} {part.name!r}: {describe_validation(error, part)}",
                mend=f"see: volvelle list {self.plural}",
                usage=True,
            ) from None

    def _from_file(self, path: Path, name: str) -> type[P]:
        before = set(self.all())
        load_file(path)
        new = {key: part for key, part in self._parts.items() if key not in before}
        found = new or {
            key: part for key, part in self._parts.items() if _file_of(part) == path.resolve()
        }
        if name:
            if name not in found:
                raise Problem(
                    f"{path} defines no {self.kind} {name!r}{nearest(name, found)}",
                    mend=f"it defines {', '.join(found) or 'none'}",
                    usage=True,
                )
            return found[name]
        if len(found) != 1:
            raise Problem(
                f"{path} defines {len(found)} {self.plural}: {', '.join(found) or 'none'}",
                mend=f"write {path}:NAME" if found else f"register a {self.kind} in it",
                usage=True,
            )
        return next(iter(found.values()))


SYSTEMS = "volvelle.systems"


def modules_of_systems(plural: str) -> dict[str, str]:
    """The modules of the published systems' parts of one kind, by the parts' names."""
    found: dict[str, str] = {}
    for system in pkgutil.iter_modules(importlib.import_module(SYSTEMS).__path__):
        home = f"{SYSTEMS}.{system.name}"
        brought = importlib.import_module(home).PARTS.get(plural, {})
        found |= {name: f"{home}.{module}" for name, module in brought.items()}
    return found


def load_file(path: Path) -> ModuleType:
    """Import a single Python file, once. Raises `Problem` where it is not there or cannot be read."""
    if not path.is_file():
        raise Problem(f"there is no file {path}", mend="check the path", usage=True)
    module_name = f"volvelle_file_{path.resolve().as_posix().replace('/', '_').replace('.', '_')}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Problem:
        del sys.modules[module_name]
        raise
    except Exception as error:
        del sys.modules[module_name]
        raise Problem(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    return module


def _file_of(part: type[Part]) -> Path | None:
    module = sys.modules.get(part.__module__)
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if file else None


def _home(part: type[Part]) -> str:
    return f"{part.__module__}.{part.__qualname__}"


def _parameters(text: str, written: str) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for pair in filter(None, text.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise Problem(
                f"cannot read {pair!r} in {written!r}", mend="write key=value", usage=True
            )
        parameters[key.strip()] = value.strip()
    return parameters
