"""How extras and the client are installed: said here, and in the same words by the pages.

Until there is a release a clone of the repository is installed from; the pages say nothing else (a test holds
them against this).
"""

CLIENT = "pip install ./packages/client"
"""The command that brings the client library alone."""


def install(extras: str) -> str:
    """The command that brings ``extras``, names joined by commas."""
    return f"pip install -e '.[{extras}]'"
