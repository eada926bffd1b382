"""Connects to an agents server as an agent does."""

import asyncio

from volvelle.live.agent import wire
from volvelle.live.agent.controller_connection import ControllerConnection
from volvelle.live.agent.folders import AgentSettings


def dial(
    settings: AgentSettings,
    identity: str = "a",
    tasks: tuple[wire.TaskStarted | wire.TaskEnded, ...] = (),
    then: tuple[wire.FromAgent, ...] = (),
) -> None:
    """Connect until welcomed; send the inventory ``tasks``, and ``then``.

    Raises `RefusedError`, TimeoutError.
    """

    async def connect() -> None:
        welcome = asyncio.Event()

        def joined(_: wire.Welcome) -> None:
            for report in (wire.NodeInventory(tasks), *then):
                connection.send(report)
            welcome.set()

        connection = ControllerConnection(settings, identity, joined, lambda message: None)
        running = asyncio.create_task(connection.run())
        waiting = asyncio.create_task(welcome.wait())
        await asyncio.wait((running, waiting), timeout=2.0, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if running.done():
            running.result()
        if not welcome.is_set():
            raise TimeoutError
        await asyncio.sleep(0.05)

    asyncio.run(connect())
