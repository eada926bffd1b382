"""Requests for another policy or admission, as the API takes them."""

from typing import Annotated

from pydantic import Field

from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import Recompose
from volvelle.live.http.errors import HttpError

WrittenPart = Annotated[str, Field(min_length=1, max_length=2000)]
"""A policy or an admission as on the command line."""


def recomposition(policy: str | None, admission: str | None, controller: Controller) -> Recompose:
    """The wanted parts, and the present ones for the others. Raises `HttpError` for parts in files."""
    for part in (policy, admission):
        if part and (".py" in part or ".json" in part):
            raise HttpError(
                409,
                f"a running server does not read {part}: it takes installed parts, and those of files "
                "that it was started with",
                place="policy",
                hint=f"start it again with --policy {part}, jobs run on meanwhile; or name an installed one",
            )
    now = controller.status
    return Recompose(policy or now.policy, admission or now.admission)
