"""``/v1/fronts``: Pareto fronts of ``volvelle tune``, of which operators put points in place."""

from typing import Annotated

from fastapi import APIRouter, Path, Response
from starlette.concurrency import run_in_threadpool

from volvelle.live.http.dependencies import OperatorPrincipal, TheFronts
from volvelle.live.http.errors import error_responses
from volvelle.live.http.kept_fronts import FrontDocument, FrontList

router = APIRouter(prefix="/v1/fronts", tags=["operating"])

FrontName = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,79}$", description="the front's name")
]


@router.get("", response_model=FrontList, responses=error_responses(403))
async def list_fronts(principal: OperatorPrincipal, fronts: TheFronts) -> Response:
    """The fronts that the server keeps, the latest first."""
    found = await run_in_threadpool(fronts.read)
    return Response(found.model_dump_json(), media_type="application/json")


@router.put("/{name}", status_code=204, responses=error_responses(403, 409))
async def keep_front(
    name: FrontName, front: FrontDocument, principal: OperatorPrincipal, fronts: TheFronts
) -> Response:
    """Keep a front, in the place of the one of this name."""
    await run_in_threadpool(fronts.keep, name, front)
    return Response(status_code=204)
