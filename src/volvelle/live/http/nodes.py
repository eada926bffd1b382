"""``/v1/nodes``: listing, draining and resuming nodes."""

from typing import Annotated

from fastapi import APIRouter, Path, Response

from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import SetNodeState
from volvelle.live.http.authentication import Principal
from volvelle.live.http.controller_requests import execute
from volvelle.live.http.dependencies import (
    AnyPrincipal,
    OperatorPrincipal,
    TheCluster,
    TheController,
)
from volvelle.live.http.errors import HttpError, error_responses
from volvelle.live.http.responses import NodeList, json_response
from volvelle.live.http.shown_cluster import shown_nodes
from volvelle.model.cluster import NodeState
from volvelle.model.problems import nearest

router = APIRouter(prefix="/v1/nodes", tags=["nodes"])

_NAMED = 8
"""Nodes that an error names."""

NodeName = Annotated[str, Path(max_length=200, description="the node's name")]


@router.get("", response_model=NodeList, responses=error_responses())
async def list_nodes(principal: AnyPrincipal, cluster: TheCluster) -> Response:
    """The nodes, who is on them and what is free."""
    problems = cluster.health.problems if principal.is_operator else ()
    return json_response(NodeList(cluster.status.time, shown_nodes(cluster), problems))


@router.post("/{name}/drain", status_code=204, responses=error_responses(403, 404, 409))
async def drain(
    name: NodeName, principal: OperatorPrincipal, controller: TheController
) -> Response:
    """Let jobs on a node run to their ends and start nothing new there."""
    return await _set_state(name, NodeState.DRAINING, controller, principal)


@router.post("/{name}/resume", status_code=204, responses=error_responses(403, 404, 409))
async def resume(
    name: NodeName, principal: OperatorPrincipal, controller: TheController
) -> Response:
    """Let a drained node take jobs again."""
    return await _set_state(name, NodeState.UP, controller, principal)


async def _set_state(
    name: str, state: NodeState, controller: Controller, principal: Principal
) -> Response:
    names = [node.name for node in controller.status.nodes]
    if name not in names:
        detail = f"there is no node {name!r}{nearest(name, names)}"
        some = ", ".join(names[:_NAMED]) + (" ..." if len(names) > _NAMED else "")
        raise HttpError(404, detail, place="node", hint=f"the nodes are {some}")
    await execute(controller, SetNodeState(name, state, principal.user))
    return Response(status_code=204)
