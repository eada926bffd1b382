"""Mistakes in a user's own part: an error that names the file and line, in place of a traceback."""

import ast
import inspect
import math
import re
import sysconfig
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from traceback import extract_tb
from types import MappingProxyType, NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from volvelle.model.problems import Problem, nearest

_NOT_THEIRS = (
    Path(__file__).parents[1],
    Path(np.__file__).parent,
    Path(sysconfig.get_path("stdlib")),
)
"""Folders whose code no part of a user's own is in."""
_OURS = "volvelle."
_KERNEL_PLACE = re.compile(r'(?:File "|Raised from )(.+?)(?:", line | \()(\d+)')
"""A place as Numba writes it, the innermost first."""


M = TypeVar("M", bound=Callable[..., Any])
_ONE_BY_ONE = ("'JobView' object is not", "truth value of an array")
"""Errors of an order that takes jobs one by one."""


def mistake_in(part: str, error: Exception, asked: str) -> Problem | None:
    """The `Problem` of a user's own ``part`` that raised ``error`` when it was ``asked``.

    None where the error came from code of ours: it keeps its traceback, and has a note.
    """
    frames = [
        frame for frame in extract_tb(error.__traceback__) if _is_theirs(Path(frame.filename))
    ]
    if not frames:
        error.add_note(f"({part}: {asked})")
        return None
    place = f"{frames[-1].filename}, line {frames[-1].lineno}, in {frames[-1].name}"
    meant = ""
    if isinstance(error, AttributeError) and error.name:
        known = [name for name in dir(error.obj) if not name.startswith("_")]
        meant = nearest(error.name, known)
        if not meant and type(error.obj).__module__.startswith(_OURS):
            meant = f" (it has {', '.join(known)})"
    if isinstance(error, IndexError) and "jobs[COUNT" in (frames[-1].line or ""):
        meant = "; columns of its own need `columns = 1`, or more, in its class"
    if any(each in str(error) for each in _ONE_BY_ONE):
        meant = "; a column is of all jobs: np.where(jobs.gpus > 3, 0.0, 1.0), no if and no loop"
    return Problem(f"{part} failed in {place}: {type(error).__name__}: {error}{meant}", mend=asked)


def _is_theirs(file: Path, *other: Path) -> bool:
    return not any(file.is_relative_to(folder) for folder in (*_NOT_THEIRS, *other))


def is_own(code: Any) -> bool:
    """Whether a class or a function is a user's own, not of this package."""
    return not code.__module__.startswith(_OURS)


def place_in_kernel(error: Exception) -> tuple[str, str]:
    """The place in a user's own kernel that Numba cannot compile, and why not; "" where it is in ours."""
    numba = find_spec("numba")
    other = [Path(numba.origin).parent] if numba and numba.origin else []
    for file, line in _KERNEL_PLACE.findall(str(error)):
        if _is_theirs(path := Path(file).resolve(), *other):
            said = [each.strip(" \n>.") for each in str(error).splitlines()]
            first, *more = [each for each in said if each and not each.startswith("Failed in ")]
            why = f"{first} {more[0]}" if first.endswith(":") else first.partition(". Raised")[0]
            return f"{path}, line {line}", why
    return "", ""


@contextmanager
def mistakes_of(part: str, asked: str) -> Iterator[None]:
    """Code within belongs to a user's own ``part``: its errors are raised as of `mistake_in`."""
    try:
        yield
    except Problem:
        raise
    except Exception as error:
        if mistake := mistake_in(part, error, asked):
            raise mistake from error
        raise


def check_methods(part: str, own: Any) -> None:
    """Raise `Problem` where a user's class lacks a method, or has one that ours cannot call."""
    if not is_own(own):
        return  # mypy knows
    if inspect.isabstract(own):
        lacking = sorted(own.__abstractmethods__)
        raise _wrong_method(part, f"lacks {', '.join(lacking)}", own, getattr(own, lacking[0]))
    one_of = getattr(own, "one_of", ())
    home = next((base for base in own.__mro__ if vars(base).get("one_of") == one_of), own)
    if one_of and all(getattr(own, name) is getattr(home, name, None) for name in one_of):
        raise _wrong_method(part, f"lacks {' or '.join(one_of)}", own, getattr(home, one_of[0]))
    for name, method in vars(own).items():
        asked = next((vars(base)[name] for base in own.__mro__[1:] if name in vars(base)), None)
        if not (inspect.isfunction(method) and inspect.isfunction(asked)):
            continue
        if is_own(asked):
            continue  # a method of pydantic's, or of the user's own base
        needed = [
            each
            for each in inspect.signature(asked).parameters.values()
            if each.default is each.empty
            and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        ]
        named = {each.name: None for each in needed if each.kind is each.KEYWORD_ONLY}
        try:
            inspect.signature(method).bind(*[None] * (len(needed) - len(named)), **named)
        except TypeError:
            written = f"{name}{_parameters(method)}"
            raise _wrong_method(part, f"has {written}", method, asked) from None


def check_answers(part: str, own: Any) -> None:
    """Let the methods of a user's class raise `Problem` where they answer with what ours do not."""
    if not is_own(own):
        return  # mypy knows
    ours = [vars(base) for base in own.__mro__ if not is_own(base)]
    for name in {name for base in own.__mro__ if is_own(base) for name in vars(base)}:
        method: Any = inspect.getattr_static(own, name)
        replaced: Any = [each[name] for each in ours if name in each]
        both = isinstance(method, property) and isinstance((*replaced, None)[0], property)
        if both:
            method, replaced = method.fget, [each.fget for each in replaced]
        replaced = [each for each in replaced if inspect.isfunction(each) and not is_own(each)]
        if not (replaced and inspect.isfunction(method) and is_own(method)):
            continue
        hint = get_type_hints(replaced[0]).get("return", NoneType)
        said = [vars(each)[_ANSWERED] for each in replaced if _ANSWERED in vars(each)]
        if said or (hint is not NoneType and _kinds(hint)):
            checked = _checked(part, method, hint, *(*said, (None, ""))[0])
            setattr(own, name, property(checked) if both else checked)


def answered(wrong: Callable[..., str], mend: str) -> Callable[[M], M]:
    """Let answers of users' own methods in the place of this one be checked by their values, too.

    ``wrong`` is called with the answer and what was asked, and says the fault; empty where there is none.
    """

    def mark(method: M) -> M:
        vars(method)[_ANSWERED] = (wrong, mend)
        return method

    return mark


_ANSWERED = "_answered"
_CHECKED_IN_USE = {"Allocation", "Kernel"}
"""Answers of which more is said where they are used."""
_ALSO: Mapping[Any, tuple[type, ...]] = MappingProxyType(
    {
        bool: (np.bool_,),
        int: (np.integer,),
        float: (int, np.integer, np.floating),
        str: (NoneType,),
    }
)
"""Types whose values stand for those of another in an answer."""


@cache
def _kinds(hint: Any) -> tuple[type, ...]:
    """The types that ``hint`` allows; none where any will do."""
    each = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    kinds = [get_origin(one) or one for one in each]
    if not all(isinstance(one, type) and one is not Any for one in kinds):
        return ()
    return () if any(one.__name__ in _CHECKED_IN_USE for one in kinds) else tuple(kinds)


@cache
def _fields(kind: Any) -> Mapping[str, Any]:
    """The fields of a class of ours whose objects are values, with their types."""
    fields: Iterable[str] = getattr(kind, "_fields", getattr(kind, "__struct_fields__", ()))
    hints = get_type_hints(kind) if fields and not is_own(kind) else {}
    return {name: hints[name] for name in fields if name in hints}


def misfit(answer: Any, hint: Any) -> str:
    """The type of an ``answer``, or of a part of it, that ``hint`` does not allow; empty: none."""
    kinds = _kinds(hint)
    if kinds and not isinstance(answer, sum((_ALSO.get(one, ()) for one in kinds), kinds)):
        return type(answer).__name__
    if isinstance(answer, float) and math.isnan(answer):
        return "NaN"
    for name, each in _fields(answer.__class__).items():
        if wrong := misfit(getattr(answer, name), each):
            return f"{type(answer).__name__}({name}={wrong})"
    if get_origin(hint) in (Collection, Sequence, tuple):
        wrongs = (misfit(each, get_args(hint)[0]) for each in answer)
        return next((f"{type(answer).__name__} of {wrong}" for wrong in wrongs if wrong), "")
    return ""


def _checked(
    part: str, method: Any, hint: Any, says_wrong: Callable[..., str] | None, mend: str
) -> Callable[..., Any]:
    """The ``method``, whose answer is of the type ``hint`` and not what ``says_wrong`` finds wrong."""
    words = " or ".join("None" if one is NoneType else one.__name__ for one in _kinds(hint))

    @wraps(method)
    def checked(self: Any, *args: Any, **named: Any) -> Any:
        asked = args
        if says_wrong:  # a method may write to the arrays that it is given
            asked = tuple(each.copy() if isinstance(each, np.ndarray) else each for each in args)
        answer = method(self, *args, **named)
        if unfit := misfit(answer, hint):
            to_do = f"let {method.__name__} return {words}"
            raise wrong_answer(part, method, f"answered with {unfit}", mend=to_do)
        if says_wrong and (wrong := says_wrong(answer, *asked)):
            raise wrong_answer(part, method, f"gave {wrong}", mend=mend)
        return answer

    return checked


def check_given(part: str, given: Any, protocol: type) -> None:
    """Raise `Problem` where what a user's own ``part`` gave lacks a method of ``protocol``."""
    own = type(given)
    if not is_own(own):
        return  # mypy knows
    for name, asked in vars(protocol).items():
        method = asked.fget if isinstance(asked, property) else asked
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        if getattr(own, name, asked) is asked and name not in getattr(given, "__dict__", ()):
            raise _wrong_method(part, f"gave {own.__name__}, which lacks {name}", own, method)


def wrong_answer(part: str, method: Any, wrong: str, *, mend: str) -> Problem:
    """The problem of a user's own ``part`` whose ``method`` gave what is ``wrong``, with its place."""
    return Problem(f"{part} in {_place_of(method)} {wrong}", mend=mend)


def check_decision(
    part: str, method: Any, kernel: Any, kind: Any, mark: Any, *, allocates: bool
) -> None:
    """Raise `Problem` where a policy's own ``method`` gave as its ``kernel`` what cannot be called.

    kind: the class of kernels; ``mark``: the kernel decorator's register of functions. allocates: it decides
    in Python where it gives no kernel.
    """
    if not is_own(method) or (kernel is None and allocates):
        return
    if not isinstance(kernel, kind):
        given = "nothing" if kernel is None else type(kernel).__name__
        wrong = f"gave {getattr(kernel, '__name__', given)}"
        raise wrong_answer(part, method, wrong, mend="return Kernel(decide, memory)")
    if not (isinstance(kernel.memory, np.ndarray) and kernel.memory.dtype == np.float64):
        wrong = f"gave {type(kernel.memory).__name__} as its memory"
        raise wrong_answer(part, method, wrong, mend="give np.array([...], dtype=float)")
    decide = kernel.decide
    check_kernel(part, decide, "jobs, cluster, memory, out", mark)
    if is_own(decide) and "return" not in decide.__annotations__ and _returns_nothing(decide):
        mend = f"let {decide.__name__} return when it is to be asked again: INFINITY for never"
        raise wrong_answer(part, decide, "returns nothing", mend=mend)


def check_kernel(part: str, code: Any, parameters: str, mark: Any) -> None:
    """Raise `Problem` where ``code``, one's own, is no kernel that takes these ``parameters``."""
    if not is_own(code):
        return
    if not inspect.isfunction(code) or code not in mark:
        mend = f"write @kernel above {getattr(code, '__name__', code)}"
        raise wrong_answer(part, code, "is no kernel", mend=mend)
    try:
        inspect.signature(code).bind(*parameters.split(", "))
    except TypeError:
        mend = f"define {code.__name__}({parameters})"
        wrong = f"has {code.__name__}{_parameters(code)}"
        raise wrong_answer(part, code, wrong, mend=mend) from None


def _returns_nothing(code: Any) -> bool:
    try:
        tree = ast.parse(dedent(inspect.getsource(code)))
    except (OSError, SyntaxError):
        return False  # of a prompt
    return not any(isinstance(each, ast.Return) and each.value for each in ast.walk(tree))


def _place_of(code: Any) -> str:
    code = inspect.unwrap(code)
    try:
        return f"{inspect.getsourcefile(code)}, line {inspect.getsourcelines(code)[1]}"
    except (OSError, TypeError):
        return str(code.__qualname__)  # of a notebook or a prompt


def _wrong_method(part: str, wrong: str, code: Any, asked: Any) -> Problem:
    return wrong_answer(part, code, wrong, mend=f"define {asked.__name__}{_parameters(asked)}")


def _parameters(method: Any) -> str:
    """``(self, job, view)``: without annotations."""
    signature = inspect.signature(method)
    bare = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))
