"""Parts by name: policies, admissions, placements, estimators, generators, trace formats, executors, metrics.

A part becomes known in one of four ways, all equal: a module of the kind's own package, a published system
that brings it (`volvelle.core.systems`; its module is imported when its name is asked for), an entry point of
an installed package, or a single file named on the command line.

A part of a composition is a pydantic model: its fields are its parameters, typed, validated, described. It is
written ``name``, ``name:key=value,...`` or ``path/to/file.py[:name[:key=value,...]]``; for parameters there
may stand a point that a search found, ``name:front.json#balanced[,key=value,...]``, also behind a file and a
name in it.
"""

import importlib
import importlib.util
import math
import pkgutil
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar
from weakref import WeakSet

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from volvelle.core.fronts import resolved
from volvelle.core.mistakes import check_answers, check_methods
from volvelle.core.systems import modules_of
from volvelle.core.written import WrittenPart
from volvelle.model.problems import Problem, nearest
from volvelle.model.validation import describe_validation


class Part(BaseModel):
    """A piece of a composition: parameters are fields, identity is the class's name and source."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ClassVar[str]
    one_of: ClassVar[tuple[str, ...]] = ()
    """Methods of which a class of one's own defines at least one."""
    checked: ClassVar[bool] = False
    """Whether answers of a class of one's own are checked by their types (`check_answers`)."""
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


class Named(Protocol):
    """A class, or a metric, that is known by a name."""

    @property
    def name(self) -> str:
        """The name, alone of its kind."""


N = TypeVar("N", bound=Named)


class Catalogue(Generic[N]):
    """The parts of one kind by name. ``package`` holds ours, entry points of ``group`` hold others'."""

    def __init__(self, kind: str, plural: str, package: str, group: str = "") -> None:
        self.kind = kind
        self.plural = plural
        self.package = package
        self.group = group or package
        self._known: dict[str, N] = {}
        self._brought: dict[str, str] = {}
        """Modules of published systems that are not imported yet, by what they bring."""
        self._searched = False
        _catalogues.add(self)

    @property
    def registering(self) -> str:
        """The decorator by which a file makes a part known."""
        if self.kind == "policy":
            return "@policy.order('NAME') above a function, or @policy.register above a class"
        return f"@{self.plural}.register above its class"

    def forget(self, modules: Collection[str]) -> None:
        """Forget the parts that are in ``modules``."""
        known = self._known.items()
        self._known = {name: one for name, one in known if _code(one).__module__ not in modules}

    def register(self, one: N) -> N:
        """Make ``one`` known by its name; a class decorator.

        Raises `Problem` for a name that is taken, and for methods that ours could not call.

        A part of the same place replaces the earlier one: a cell of a notebook that is run again.
        """
        if isinstance(one, type):
            check_methods(f"{self.kind} {one.name!r}", one)
            if getattr(one, "checked", False):
                check_answers(f"{self.kind} {one.name!r}", one)
        module = _code(one).__module__
        home = self._brought.pop(one.name, module)
        if home != module:
            importlib.import_module(home)
        known = self._known.get(one.name)
        if known is not None and _home(known) != _home(one):
            raise Problem(
                f"two {self.plural} are called {one.name!r}: {_home(known)} and {_home(one)}",
                mend="rename one of them",
            )
        self._known[one.name] = one
        return one

    def all(self) -> dict[str, N]:
        """Every part known on this machine, by name."""
        self._search()
        while self._brought:
            importlib.import_module(self._brought.popitem()[1])
        return dict(sorted(self._known.items()))

    def names(self) -> list[str]:
        """The names of all, in order; nothing of a published system is imported for them."""
        self._search()
        return sorted({*self._known, *self._brought})

    def get(self, name: str) -> N:
        """The part called ``name``. Raises `Problem` with the nearest name."""
        self._search()
        if name in self._brought:
            importlib.import_module(self._brought.pop(name))
        if name not in self._known:
            several = name.split(",")
            alone = " ".join(f"--{self.kind.split()[-1]} {one}" for one in several)
            raise Problem(
                f"unknown {self.kind} {name!r}{self.near(name)}",
                mend=f"name each alone: {alone}"
                if set(several) <= set(self.names())
                else f"see: volvelle list {self.plural}",
                usage=True,
            )
        return self._known[name]

    def near(self, name: str) -> str:
        """The known name that may be meant, as `nearest` says it."""
        return nearest(name, self.names())

    def written(self, text: str) -> N:
        """The part that is written as its name, or as ``path/to/file.py[:name]``. Raises `Problem`."""
        found = WrittenPart.read(text)
        return self.from_file(Path(found.home), found.name) if found.in_a_file else self.get(text)

    def _search(self) -> None:
        """Import this kind's own package and the entry points, once; note what systems bring."""
        if self._searched:
            return
        self._searched = True
        self._brought = {
            name: home for name, home in modules_of(self.plural).items() if name not in self._known
        }
        for module in pkgutil.iter_modules(importlib.import_module(self.package).__path__):
            importlib.import_module(f"{self.package}.{module.name}")
        for entry in plugged_in().select(group=self.group):
            self.register(entry.load())

    def from_file(self, path: Path, name: str = "") -> N:
        """The part called ``name`` that a file registers, or the only one. Raises `Problem`."""
        before = set(self.names())
        load_file(path)
        new = {key: one for key, one in self._known.items() if key not in before}
        found = new or {
            key: one
            for key, one in self._known.items()
            if _file_of(_code(one).__module__) == path.resolve()
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
            register = f"write {self.registering}"
            raise Problem(
                f"{path} defines {', '.join(found) or f'no {self.kind}'}",
                mend=f"write {path}:NAME" if found else register,
                usage=True,
            )
        return next(iter(found.values()))


@cache
def plugged_in() -> Any:
    """The `EntryPoints` of all packages: where a hundred are installed, reading them takes 2 ms."""
    return entry_points()


P = TypeVar("P", bound=Part)


class Registry(Catalogue[type[P]]):
    """The parts of one kind, made as they are written."""

    def make(self, written: str) -> P:
        """The part written as ``name:key=value,...`` or as a file. Raises `Problem`."""
        found = WrittenPart.read(resolved(written))
        return self.build(self.written(found.part), _parameters(found.rest, written))

    def build(self, part: type[P], parameters: dict[str, Any]) -> P:
        """``part`` with ``parameters``. Raises `Problem` naming the key, the value and the mend."""
        try:
            return part.model_validate(parameters)
        except ValidationError as error:
            raise Problem(
                f"{self.kind} {part.name!r}: {describe_validation(error, part)}",
                mend=f"its keys are {', '.join(part.model_fields)}"
                if part.model_fields
                else "it has no keys",
                usage=True,
            ) from None


_catalogues: WeakSet[Catalogue[Any]] = WeakSet()


@contextmanager
def forgotten_files() -> Iterator[None]:
    """Single files that are loaded within, and their parts, are unknown behind it."""
    before = _files_loaded()
    try:
        yield
    finally:
        _forget(_files_loaded() - before)


def forget_changed_files() -> None:
    """Forget single files that were written since they were loaded, and their parts."""
    _forget(name for name in _files_loaded() if _last_written(_file_of(name)) != _loaded.get(name))


def _forget(files: Iterable[str]) -> None:
    names = set(files)
    for name in names:
        del sys.modules[name]
    for catalogue in _catalogues:
        catalogue.forget(names)


_loaded: dict[str, int] = {}
"""When files that are loaded were last written, by the names of their modules."""


def _last_written(path: Path | None) -> int:
    return path.stat().st_mtime_ns if path and path.is_file() else 0


def _files_loaded() -> set[str]:
    return {name for name in sys.modules if name.startswith(_FILE)}


def load_file(path: Path) -> ModuleType:
    """Import a single Python file, once. Raises `Problem` where it is not there or cannot be read."""
    if not path.is_file():
        raise Problem(f"there is no file {path}", mend="check the path", usage=True)
    module_name = f"{_FILE}{path.resolve().as_posix().replace('/', '_').replace('.', '_')}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name], _loaded[module_name] = module, _last_written(path)
    try:
        spec.loader.exec_module(module)
    except Problem:
        del sys.modules[module_name]
        raise
    except Exception as error:
        del sys.modules[module_name]
        whole = str(path.absolute())
        lines = [one.lineno for one in extract_tb(error.__traceback__) if one.filename == whole]
        place = f" at line {lines[-1]}" if lines else ""
        raise Problem(f"{path} cannot be loaded{place}: {type(error).__name__}: {error}") from error
    return module


_FILE = "volvelle_file_"
"""The names of modules begin so that were loaded as single files."""


def path_of(part: object) -> Path | None:
    """The single file that ``part`` is in; None for a part of a package."""
    module: str = _code(part).__module__
    return _file_of(module) if module.startswith(_FILE) else None


def _code(part: object) -> Any:
    """The class, or of a metric the function: what has a module and a name in it."""
    return getattr(part, "__wrapped__", part)


def _file_of(module: str) -> Path | None:
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).resolve() if file else None


def _home(part: object) -> str:
    code = _code(part)
    return f"{path_of(part) or code.__module__}: {code.__qualname__}"


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
