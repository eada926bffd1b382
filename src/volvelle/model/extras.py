"""How extras and the client are installed: said here, and in the same words by the pages.

Until there is a release a clone of the repository is installed from; the pages say nothing else (a test holds
them against this).
"""

from volvelle.model.problems import Problem

CLIENT = "pip install ./packages/client"
"""The command that brings the client library alone."""


def install(extras: str) -> str:
    """The command that brings ``extras``, names joined by commas."""
    return f"pip install -e '.[{extras}]'"


_DISTRIBUTIONS = {"yaml": "pyyaml"}
"""Modules that are called other than the distribution that has them."""


def missing(error: ModuleNotFoundError, command: str) -> Problem | None:
    """The problem of ``command`` without a module that an extra brings, the smallest; None for others."""
    import re  # noqa: PLC0415 - few need them
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415

    module = (error.name or "").partition(".")[0]
    wanted = _DISTRIBUTIONS.get(module, module.replace("_", "-"))
    try:
        requirements = requires("volvelle") or []
    except PackageNotFoundError:
        return None
    found = [
        re.match(r"""([\w-]+).*\bextra == ["']([\w-]+)""", each.lower()) for each in requirements
    ]
    pairs = [each.groups() for each in found if each]
    extras = [extra for _, extra in pairs]
    bringing = [extra for name, extra in pairs if name == wanted]
    if not bringing:
        return None
    mend = f"install it: {install(min(bringing, key=extras.count))}"
    return Problem(f"{command} needs {module}, which is not installed", mend=mend)
