"""Passes requests to the controller, and waits until their effects are stored."""

import asyncio
import time
from collections import deque
from concurrent.futures import Future
from typing import Any
from weakref import WeakKeyDictionary

from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import ControlRequest, Submit
from volvelle.live.http.errors import unavailable

ANSWER_TIMEOUT_SECONDS = 10.0
NOT_READY_SECONDS = 1.0
"""How long a request waits for a controller whose store is down: requests do not queue up for it."""


async def execute(controller: Controller, request: ControlRequest) -> Any:
    """The answer to ``request``. Raises `HttpError` if the controller is not ready or does not answer."""
    deadline = time.monotonic() + NOT_READY_SECONDS
    while not controller.is_ready:
        if time.monotonic() > deadline:
            problems = controller.health.problems
            raise unavailable("; ".join(problems) or "the controller has ended")
        await asyncio.sleep(0.05)
    if controller.is_busy:
        raise unavailable("too many requests wait for an answer")
    if isinstance(request, Submit) and (problem := controller.disk_problem):
        raise unavailable(problem)
    answer = _answers().expect(controller.request(request))
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
            return await answer
    except TimeoutError:
        raise unavailable(
            "the controller does not answer; what was asked may still be done"
        ) from None


class _Answers:
    """Brings answers from the controller's thread to an event loop, which is woken once for many of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._arrived: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._woken = False

    def expect(self, answer: "Future[Any]") -> "asyncio.Future[Any]":
        """A future of the loop that gets ``answer``; to cancel it does not cancel the request."""
        expected = self._loop.create_future()
        answer.add_done_callback(lambda done: self._arrive(expected, done))
        return expected

    def _arrive(self, expected: "asyncio.Future[Any]", answer: "Future[Any]") -> None:
        """From any thread."""
        if self._loop.is_closed():
            return  # the server has ended
        self._arrived.append((expected, answer))
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._woken = False  # first: what arrives from now on wakes the loop again
        while self._arrived:
            expected, answer = self._arrived.popleft()
            if expected.done():
                continue  # the request was given up
            if (error := answer.exception()) is not None:
                expected.set_exception(error)
            else:
                expected.set_result(answer.result())


_of_loops: "WeakKeyDictionary[asyncio.AbstractEventLoop, _Answers]" = WeakKeyDictionary()


def _answers() -> _Answers:
    """Of the running loop."""
    loop = asyncio.get_running_loop()
    if loop not in _of_loops:
        _of_loops[loop] = _Answers(loop)
    return _of_loops[loop]
