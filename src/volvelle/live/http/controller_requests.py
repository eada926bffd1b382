"""Passes requests to the controller, and waits until their effects are stored."""

import asyncio
import time
from typing import Any

from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import ControlRequest
from volvelle.live.http.errors import unavailable

ANSWER_TIMEOUT_SECONDS = 10.0
NOT_READY_SECONDS = 1.0
"""How long a request waits for a controller whose store is down: requests do not queue up for it."""


async def execute(controller: Controller, request: ControlRequest) -> Any:
    """The answer to ``request``. Raises `HttpError` if the controller is not ready or does not answer."""
    deadline = time.monotonic() + NOT_READY_SECONDS
    while not (health := controller.health).ready:
        if time.monotonic() > deadline:
            raise unavailable("; ".join(health.problems) or "the controller has ended")
        await asyncio.sleep(0.05)
    if controller.is_busy:
        raise unavailable("too many requests wait for an answer")
    answer = asyncio.shield(asyncio.wrap_future(controller.request(request)))
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
            return await answer
    except TimeoutError:
        raise unavailable(
            "the controller does not answer; what was asked may still be done"
        ) from None
