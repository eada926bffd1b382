"""``/v1/nodes``: what there is, and taking nodes out and in again."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path, Response

from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import SetNode
from volvelle.live.http.authentication import Anybody, Live, Operator
from volvelle.live.http.errors import Refusal, described
from volvelle.live.http.jobs import done
from volvelle.live.http.responses import answer
from volvelle.live.status.view import NodeStatusView
from volvelle.model.cluster import NodeState
from volvelle.model.problems import nearest

router = APIRouter(prefix="/v1/nodes", tags=["nodes"])

Name = Annotated[str, Path(max_length=200, description="the node's name")]


@dataclass(frozen=True)
class Nodes:
    """All nodes."""

    time: float
    nodes: tuple[NodeStatusView, ...]


@router.get("", response_model=Nodes, responses=described())
async def look(who: Anybody, controller: Live) -> Response:
    """The nodes, who is on them and what is free."""
    return answer(Nodes(controller.status.time, controller.status.nodes))


@router.post("/{name}/drain", status_code=204, responses=described(403, 404, 409))
async def drain(name: Name, who: Operator, controller: Live) -> Response:
    """Let jobs on a node run to their ends and start nothing new there."""
    return await _become(name, NodeState.DRAINING, controller)


@router.post("/{name}/resume", status_code=204, responses=described(403, 404, 409))
async def resume(name: Name, who: Operator, controller: Live) -> Response:
    """Let a drained node take jobs again."""
    return await _become(name, NodeState.UP, controller)


async def _become(name: str, state: NodeState, controller: Controller) -> Response:
    names = [node.name for node in controller.status.nodes]
    if name not in names:
        thing = f"there is no node {name!r}{nearest(name, names)}"
        raise Refusal(404, thing, place="node", mend="see: volvelle nodes")
    await done(controller, SetNode(name, state))
    return Response(status_code=204)
