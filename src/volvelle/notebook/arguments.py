"""Arguments of functions in Python: checked by their types, and named in `Problem`s as Python writes them."""

import inspect
import re
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from volvelle.core.registry import forget_changed_files
from volvelle.model.problems import Problem
from volvelle.model.validation import in_our_words

Given = ParamSpec("Given")
Result = TypeVar("Result")

_PLAIN = {bool, float, int, str, type(None)}
_FLAGS = ("ignore_types", "resume", "strict")
_VALUED = ("cluster", "dates", "format", "overheads", "placement", "policy", "price", "workers")
_BESIDE = re.compile(r"(=(?:\{[^}]*\}|'[^']*')) (?=[a-z_]+=)")
_AGAIN = re.compile(r"policy='[^']*'(?:, policy='[^']*')+")
_OPTION = re.compile(r"--([a-z][a-z-]*)(?: ('[^']*'|[^\s']+?)(?=[.,;:)]?(?:\s|$)))?")


def in_python(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """The function, with numbers and texts checked by their annotations before it is called.

    A `Problem`, also of the call itself, names arguments in place of a command's options. Files with parts
    that were edited since the last call are loaded again.
    """
    signature = inspect.signature(function)
    kinds = {
        name: TypeAdapter(hint)
        for name, hint in get_type_hints(function).items()
        if name in signature.parameters and set(get_args(hint) or (hint,)) <= _PLAIN
    }

    @wraps(function)
    def checked(*arguments: Given.args, **named: Given.kwargs) -> Result:
        try:
            bound = signature.bind(*arguments, **named)
        except TypeError as error:
            asked = ", ".join(signature.parameters)
            raise Problem(
                f"{function.__name__}: {error}", mend=f"its arguments are {asked}"
            ) from None
        given = bound.arguments
        for name in kinds.keys() & given.keys():
            try:
                given[name] = kinds[name].validate_python(given[name])
            except ValidationError as error:
                message = in_our_words(error.errors(include_url=False)[0]["msg"])
                raise Problem(
                    f"{name}: {given[name]!r}: {message[0].lower()}{message[1:]}"
                ) from None
        forget_changed_files()
        try:
            return function(*bound.args, **bound.kwargs)
        except Problem as problem:
            problem.args = (python_of(str(problem.args[0])),)
            problem.mend = python_of(problem.mend)
            raise

    return checked


def python_of(text: str) -> str:
    """A sentence in which arguments stand for a command's options."""
    written = _BESIDE.sub(r"\1, ", _OPTION.sub(_argument, text))
    return _AGAIN.sub(lambda found: f"policies=[{found[0].replace('policy=', '')}]", written)


def _argument(found: re.Match[str]) -> str:
    name, value = found[1].replace("-", "_"), found[2]
    plain = (value or "").strip("'")
    if name == "generate" and value is not None:
        return f"generate({plain!r})"
    if name == "map" and all("=" in pair for pair in plain.split(",")):
        return f"map={dict(pair.split('=', 1) for pair in plain.split(','))}"
    if value is not None and name in _VALUED:
        return f"{name}={plain if plain.isdigit() or plain.isupper() else repr(plain)}"
    written = f"{name}=True" if name in _FLAGS else name
    return written if value is None else f"{written} {value}"
