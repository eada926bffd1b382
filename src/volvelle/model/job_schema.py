"""The schema of a job: how each attribute is written, beside its name, type and default.

A field of `JobSpec` or `Truth` is annotated with an `Attribute`. From the fields follow the columns of our
table of jobs, read and written, the keys of job requests, options of ``volvelle submit``, the columns of the
scheduler's state that repeat a declaration, and the reference pages.
"""

from functools import cache
from operator import attrgetter
from types import NoneType, SimpleNamespace
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import msgspec

GPUS, SECONDS = "GPUs", "s"
"""Units. GPUs of requests are whole; durations may be written as ``4h30m``."""

NEEDS, TIMES, RUNNING = "What it needs", "How long", "How it runs"
"""Groups of options in the help of ``volvelle submit``."""


class Attribute(msgspec.Struct, frozen=True, gc=False):
    """How one attribute of a job is written and described.

    meaning: in a few words.
    unit: of a number, `GPUS` or `SECONDS`, where it is one of them.
    column: header in our own table of jobs; empty: the field's name.
    cell: what the page of columns says besides, of how a cell is written.
    separator: of several texts in a cell.
    key: in a job request; empty: no key follows from the field.
    bounds: of a request's value, as keyword arguments of a pydantic ``Field``.
    pattern: of each text of a list.
    flag: option of ``volvelle submit`` and its short form; empty: none. Where the default is true, it says
    ``--no-...`` and means false. metavar, panel: of the option.
    state: the column of `volvelle.core.state.Jobs` with this number, 0 for None; empty: none.
    number: the property of the job with the number for that column; empty: the field itself.
    need: whether it says what the job needs of a cluster, or what its stops cost.
    changeable: whether its user may change it while the job waits: a number that no node has to be judged by.
    """

    meaning: str
    unit: str = ""
    column: str = ""
    cell: str = ""
    separator: str = ""
    key: str = ""
    bounds: dict[str, Any] = {}
    pattern: str = ""
    flag: str = ""
    metavar: str = ""
    panel: str = NEEDS
    state: str = ""
    number: str = ""
    need: bool = False
    changeable: bool = False


class JobField(NamedTuple):
    """A field of a job's struct. ``type`` is without None, which ``optional`` stands for."""

    name: str
    type: Any
    optional: bool
    default: Any
    about: Attribute

    @property
    def column(self) -> str:
        """Its header in our own table."""
        return self.about.column or self.name

    @property
    def number(self) -> str:
        """The attribute with the number that the scheduler's state repeats."""
        return self.about.number or self.name


@cache
def fields_of(struct: type[msgspec.Struct]) -> tuple[JobField, ...]:
    """The fields of ``struct`` that have an `Attribute`, in order; ``default`` is NODEFAULT for none."""
    found = []
    for one in msgspec.structs.fields(struct):
        if get_origin(one.type) is not Annotated:
            continue
        kind, about = get_args(one.type)
        plain = [alternative for alternative in get_args(kind) if alternative is not NoneType]
        optional = len(plain) < len(get_args(kind))
        default = one.default
        if one.default_factory is not msgspec.NODEFAULT:
            default = one.default_factory()
        only = plain[0] if optional and len(plain) == 1 else kind
        found.append(JobField(one.name, only, optional, default, about))
    return tuple(found)


def with_key(struct: type[msgspec.Struct]) -> tuple[JobField, ...]:
    """The fields that are keys of a job request."""
    return tuple(one for one in fields_of(struct) if one.about.key)


def with_state(struct: type[msgspec.Struct]) -> tuple[JobField, ...]:
    """The fields that the scheduler's state repeats."""
    return tuple(one for one in fields_of(struct) if one.about.state)


def changeable(struct: type[msgspec.Struct]) -> tuple[JobField, ...]:
    """The fields that may change while a job waits; all are keys of a job request."""
    return tuple(one for one in fields_of(struct) if one.about.changeable)


class Needs:
    """The needs of a job as values that can be compared; the fields ``besides`` are left aside."""

    def __init__(self, struct: type[msgspec.Struct], besides: tuple[str, ...] = ()) -> None:
        fields = [one for one in fields_of(struct) if one.about.need and one.name not in besides]
        self.of = attrgetter(*(one.name for one in fields))
        """The values of one job."""
        self.none = self.of(SimpleNamespace(**{one.name: one.default for one in fields}))
        """The values of a job that declares none of them."""
