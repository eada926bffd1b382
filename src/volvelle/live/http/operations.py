"""What is for operators: the policy, the journal, snapshots, tokens."""

from pathlib import Path as FilePath
from tempfile import NamedTemporaryFile
from typing import Annotated

from fastapi import APIRouter, Path, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool

from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import Recompose
from volvelle.live.forecasts.what_if import Shift
from volvelle.live.http.authentication import Anybody, AtGate, Live, Operator, Stored, new_token
from volvelle.live.http.errors import Refusal, described
from volvelle.live.http.jobs import done
from volvelle.live.http.responses import Issued, KnownToken, Policy, answer
from volvelle.live.http.role import Role

router = APIRouter(prefix="/v1", tags=["operating"])

ID_LENGTH = 12
JOURNAL = "application/jsonl"

Plain = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$", max_length=200)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NewPolicy(_Strict):
    """Parts as they are written on the command line; files of the server's machine are not read."""

    policy: Annotated[str, Field(min_length=1, max_length=2000)] | None = None
    admission: Annotated[str, Field(min_length=1, max_length=2000)] | None = None


class NewToken(_Strict):
    """Whom a token is for."""

    user: Annotated[Plain, Field(min_length=1)]
    role: Role = Role.USER
    label: Plain = ""


@router.get("/policy", response_model=Policy, responses=described())
async def policy(who: Anybody, controller: Live) -> Response:
    """What decides now."""
    return answer(Policy(controller.status.policy, controller.status.admission))


@router.put("/policy", response_model=Policy, responses=described(403, 409))
async def recompose(wanted: NewPolicy, who: Operator, controller: Live) -> Response:
    """Go on with another policy or admission; what runs is touched only as these demand."""
    chosen = _chosen(wanted, controller)
    await done(controller, chosen)
    return answer(Policy(chosen.policy, chosen.admission))


@router.post("/policy/forecast", response_model=Shift, responses=described(403, 409))
async def foreseen(wanted: NewPolicy, who: Operator, controller: Live) -> Response:
    """Which jobs another policy or admission would stop, start and resize at once. Nothing is changed."""
    return answer(await run_in_threadpool(controller.shift, _chosen(wanted, controller)))


def _chosen(wanted: NewPolicy, controller: Controller) -> Recompose:
    """What stays and what changes; raises `Refusal` for what stands in a file."""
    for written in (wanted.policy, wanted.admission):
        if written and (".py" in written or ".json" in written):
            raise Refusal(
                409,
                "files are not read on behalf of the API",
                place="policy",
                mend="name an installed part, or start the server with the file",
            )
    now = controller.status
    return Recompose(wanted.policy or now.policy, wanted.admission or now.admission)


@router.get(
    "/journal",
    response_class=FileResponse,
    responses=described(403) | {200: {"content": {JOURNAL: {"schema": {"type": "string"}}}}},
)
async def journal(who: Operator, store: Stored) -> FileResponse:
    """Every event and decision so far: what ``volvelle report`` and ``volvelle simulate`` read."""
    with NamedTemporaryFile(prefix="volvelle-", suffix=".jsonl", delete=False) as file:
        path = FilePath(file.name)
    await run_in_threadpool(store.journal, path)
    return FileResponse(
        path, media_type=JOURNAL, filename="journal.jsonl", background=BackgroundTask(path.unlink)
    )


@router.get(
    "/snapshot",
    responses=described(403) | {200: {"content": {"application/json": {"schema": {}}}}},
)
async def snapshot(who: Operator, controller: Live) -> Response:
    """How things stand: what ``volvelle simulate --from-snapshot`` goes on from."""
    taken = await run_in_threadpool(controller.snapshot)
    return Response(taken.encode(), media_type="application/json")


@router.post("/tokens", status_code=201, response_model=Issued, responses=described(403))
async def issue(wanted: NewToken, who: Operator, store: Stored, gate: AtGate) -> Response:
    """Make a token. It is shown this once; only its hash is kept."""
    token, kept = new_token(wanted.user, wanted.role, wanted.label)
    await run_in_threadpool(store.add_token, kept)
    gate.forget()
    return answer(Issued(token, wanted.user, wanted.role), 201)


@router.get("/tokens", response_model=tuple[KnownToken, ...], responses=described(403))
async def tokens(who: Operator, store: Stored) -> Response:
    """The tokens that hold."""
    found = await run_in_threadpool(store.tokens)
    known = (
        KnownToken(one.digest[:ID_LENGTH], one.user, one.role, one.label, one.created)
        for one in found
        if not one.revoked
    )
    return answer(tuple(known))


@router.delete("/tokens/{id}", status_code=204, responses=described(403, 404))
async def revoke(
    id: Annotated[str, Path(pattern=f"^[0-9a-f]{{{ID_LENGTH}}}$")],
    who: Operator,
    store: Stored,
    gate: AtGate,
) -> Response:
    """Let a token open nothing any more."""
    found = await run_in_threadpool(store.tokens)
    digests = [one.digest for one in found if one.digest.startswith(id) and not one.revoked]
    if not digests:
        raise Refusal(
            404, f"there is no token {id}", place="token", mend="see: volvelle token list"
        )
    for digest in digests:
        await run_in_threadpool(store.revoke, digest)
    gate.forget()
    return Response(status_code=204)
