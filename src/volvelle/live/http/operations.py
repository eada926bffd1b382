"""For operators: the policy, the journal, snapshots, tokens."""

import os
import time
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from fastapi import APIRouter, Response
from fastapi.responses import StreamingResponse
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from volvelle.core.parts import admissions
from volvelle.core.policy import policies
from volvelle.live.forecasts.what_if import RecompositionEffect
from volvelle.live.http.authentication import new_token
from volvelle.live.http.controller_requests import execute
from volvelle.live.http.dependencies import (
    AnyPrincipal,
    OperatorPrincipal,
    TheAuthenticator,
    TheController,
    TheForecastThreads,
    TheStore,
)
from volvelle.live.http.errors import HttpError, error_responses
from volvelle.live.http.recomposition import WrittenPart, recomposition
from volvelle.live.http.responses import (
    CurrentPolicy,
    IssuedToken,
    ListedToken,
    NamedPart,
    NamedPolicy,
    PartList,
    json_response,
)
from volvelle.live.request_parts import PositiveDuration
from volvelle.live.role import Role
from volvelle.live.strict_model import StrictModel

router = APIRouter(prefix="/v1", tags=["operating"])

_ID_LENGTH = 12
_JOURNAL_TYPE = "application/jsonl"
_CHUNK_BYTES = 1 << 18

Printable = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$", max_length=200)]


class NewPolicy(StrictModel):
    """Parts as they are written on the command line; files of the server's machine are not read."""

    policy: WrittenPart | None = None
    admission: WrittenPart | None = None


class NewToken(StrictModel):
    """User and role of a new token; an agent's user is its node.

    expires: how long it is valid, as in 30d; None: for ever.
    """

    user: Annotated[Printable, Field(min_length=1)]
    role: Role = Role.USER
    label: Printable = ""
    expires: PositiveDuration | None = None


@router.get("/policy", response_model=CurrentPolicy, responses=error_responses())
async def show_policy(principal: AnyPrincipal, controller: TheController) -> Response:
    """The policy and the admission that decide now."""
    view = controller.status
    return json_response(CurrentPolicy(view.policy, view.admission))


@router.get("/policies", response_model=PartList, responses=error_responses())
async def list_policies(principal: AnyPrincipal) -> Response:
    """The policies and admissions that are installed."""
    return json_response(await run_in_threadpool(_installed))


@cache
def _installed() -> PartList:
    described = (
        NamedPolicy(
            name,
            part.summary(),
            part.optimises,
            part.source,
            part.needs_durations,
            part.goes_by_rates,
            part.incumbent,
        )
        for name, part in policies.all().items()
    )
    named = (NamedPart(name, part.summary()) for name, part in admissions.all().items())
    return PartList(tuple(described), tuple(named))


@router.put("/policy", response_model=CurrentPolicy, responses=error_responses(403, 409))
async def set_policy(
    wanted: NewPolicy, principal: OperatorPrincipal, controller: TheController
) -> Response:
    """Go on with another policy or admission; what runs is touched only as these demand."""
    request = recomposition(wanted.policy, wanted.admission, controller)
    await execute(controller, replace(request, by=principal.user))
    return json_response(CurrentPolicy(request.policy, request.admission))


@router.post(
    "/policy/forecast",
    response_model=RecompositionEffect,
    responses=error_responses(403, 409, 429),
)
async def forecast_policy(
    wanted: NewPolicy,
    principal: OperatorPrincipal,
    controller: TheController,
    threads: TheForecastThreads,
) -> Response:
    """Which jobs another policy or admission would stop, start and resize at once. Nothing is changed."""
    request = recomposition(wanted.policy, wanted.admission, controller)
    work = partial(controller.forks.forecast_recomposition, request)
    return json_response(await threads.run(principal, work))


@router.get(
    "/journal",
    response_class=StreamingResponse,
    responses=error_responses(403)
    | {200: {"content": {_JOURNAL_TYPE: {"schema": {"type": "string"}}}}},
)
async def download_journal(principal: OperatorPrincipal, store: TheStore) -> StreamingResponse:
    """Every event and decision so far: what ``volvelle report`` and ``volvelle simulate`` read."""
    with TemporaryDirectory(prefix="volvelle-") as folder:
        path = Path(folder, "journal.jsonl")
        await run_in_threadpool(store.write_journal, path)
        file = path.open("rb")  # read once its name is gone: nothing stays, however this ends
    size = os.fstat(file.fileno()).st_size
    head = {
        "Content-Length": str(size),
        "Content-Disposition": f'attachment; filename="{path.name}"',
    }
    chunks = iter(partial(file.read, _CHUNK_BYTES), b"")
    return StreamingResponse(chunks, media_type=_JOURNAL_TYPE, headers=head)


@router.get(
    "/snapshot",
    responses=error_responses(403) | {200: {"content": {"application/json": {"schema": {}}}}},
)
async def download_snapshot(principal: OperatorPrincipal, controller: TheController) -> Response:
    """The present state: what ``volvelle simulate --from-snapshot`` goes on from."""
    snapshot = await run_in_threadpool(controller.forks.snapshot)
    return Response(snapshot.encode(), media_type="application/json")


@router.post("/tokens", status_code=201, response_model=IssuedToken, responses=error_responses(403))
async def create_token(
    wanted: NewToken,
    principal: OperatorPrincipal,
    store: TheStore,
    authenticator: TheAuthenticator,
) -> Response:
    """Make a token, or the key of a node. It is shown this once; only its hash is kept."""
    token, row = new_token(wanted.user, wanted.role, wanted.label, wanted.expires)
    await run_in_threadpool(store.tokens.add, row)
    authenticator.invalidate()
    return json_response(IssuedToken(token, wanted.user, wanted.role), 201)


@router.get("/tokens", response_model=tuple[ListedToken, ...], responses=error_responses(403))
async def list_tokens(principal: OperatorPrincipal, store: TheStore) -> Response:
    """The valid tokens."""
    found, now = await run_in_threadpool(store.tokens.list_all), time.time()
    valid = (
        ListedToken(
            each.digest[:_ID_LENGTH],
            each.user,
            each.role,
            each.label,
            each.created,
            each.expires,
        )
        for each in found
        if each.valid(now)
    )
    return json_response(tuple(valid))


@router.delete("/tokens/{id}", status_code=204, responses=error_responses(403, 404))
async def revoke_token(
    id: str,
    principal: OperatorPrincipal,
    store: TheStore,
    authenticator: TheAuthenticator,
) -> Response:
    """Revoke a token."""
    found = await run_in_threadpool(store.tokens.list_all)
    digests = [each.digest for each in found if each.digest[:_ID_LENGTH] == id and not each.revoked]
    if not digests:
        raise HttpError(
            404, f"there is no token {id!r}", place="token", hint="see: volvelle token list"
        )
    for digest in digests:
        await run_in_threadpool(store.tokens.revoke, digest)
    authenticator.invalidate()
    return Response(status_code=204)
