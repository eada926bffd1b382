"""Bodies above a few kilobytes: from known principals only, one of a user at a time, read off the event loop.

Parsing and validation of JSON hold the interpreter. A body is therefore checked for length before anything in
it is interpreted, and a user whose body takes long to read waits in proportion before the next one is read.
"""

import asyncio
import json
import time
from collections import Counter, defaultdict
from typing import Any

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from volvelle.live.http.authentication import Principal
from volvelle.live.http.dependencies import authenticate
from volvelle.live.http.errors import HttpError, error_response, handle, schema_hint, shorten
from volvelle.live.http.request_limits import replay
from volvelle.live.job_request import JobRequest
from volvelle.model.validation import describe_validation, telling

SMALL_BYTES = 4096
"""Bodies up to this size are read where they arrive."""

_JOB_PATHS = ("/v1/jobs", "/v1/forecast")
JOB = "volvelle.job"
"""Key of the scope: the job of a body that was read here."""

_MAX_VALUES = 5000
_MAX_ITEMS = 4096
_MAX_TEXT = 65_536
_MAX_LINE = 8192
"""Of a body: values in all, items of a list, characters of a text, and of a command that is to be split."""

_MAX_WAITING = 4
"""Bodies of a user that wait; each is in memory."""

_PAUSE = 3.0
"""So many times as long as reading a user's body took, the user's next one waits."""


class LargeBodies:
    """ASGI middleware behind `RequestLimits`. Uploads, which nothing interprets, pass."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._waiting: Counter[str] = Counter()
        self._next_turns: defaultdict[str, float] = defaultdict(float)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on once its body was checked, or answer with an error."""
        if scope["type"] != "http" or scope["path"].startswith("/v1/uploads/"):
            await self._app(scope, receive, send)
            return
        body: bytes = (await receive())["body"]
        receive = replay(body, receive)
        if len(body) <= SMALL_BYTES:
            await self._app(scope, receive, send)
            return
        try:
            principal = await authenticate(Request(scope))
            job = await self._in_turn(principal, scope, body)
        except HttpError as error:
            response = error_response(error.status, error.problem, error.headers)
        except Exception as error:
            response = await handle(Request(scope), error)
        else:
            await self._app({**scope, JOB: job}, receive, send)
            return
        await response(scope, receive, send)

    async def _in_turn(self, principal: Principal, scope: Scope, body: bytes) -> JobRequest | None:
        user = principal.user
        if self._waiting[user] >= _MAX_WAITING:
            raise HttpError(
                429,
                f"{_MAX_WAITING} large bodies of user {user} wait to be read",
                place="body",
                hint="send one at a time",
                headers={"Retry-After": "1"},
            )
        self._waiting[user] += 1
        try:
            async with self._turns[user]:
                await asyncio.sleep(max(0.0, self._next_turns[user] - time.monotonic()))
                began = time.monotonic()
                try:
                    return await run_in_threadpool(_read, principal, scope, body)
                finally:
                    ended = time.monotonic()
                    self._next_turns[user] = ended + _PAUSE * (ended - began)
        finally:
            self._waiting[user] -= 1


def _read(principal: Principal, scope: Scope, body: bytes) -> JobRequest | None:
    """The job in a body; None where another document is expected. Raises `HttpError`."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise _refused("the body is not JSON, or nested too deeply", "send JSON") from None
    if not principal.is_operator:
        _check_lengths(document)
    if scope["path"] not in _JOB_PATHS or scope["method"] != "POST":
        return None
    try:
        return JobRequest.model_validate(document)
    except ValidationError as error:
        detail = shorten(describe_validation(error, JobRequest))
        hint = schema_hint(telling(error.errors())["type"])
        raise _refused(detail, hint) from None


def _check_lengths(document: Any) -> None:
    """Raise `HttpError` where a document is larger than any that a user needs."""
    pending, values = [("", document)], 0
    while pending:
        place, value = pending.pop()
        if isinstance(value, str):
            most = _MAX_LINE if place in ("command", "setup item") else _MAX_TEXT
            _check_length(place, len(value), most, "characters")
        elif isinstance(value, list):
            _check_length(place, len(value), _MAX_ITEMS, "items")
            values += len(value)
            pending += ((f"{place} item", each) for each in value)
        elif isinstance(value, dict):
            values += len(value)
            _check_length("body", values, _MAX_VALUES, "values in all")
            pending += ((place or key, each) for key, each in value.items())
        _check_length("body", values, _MAX_VALUES, "values in all")


def _check_length(place: str, length: int, most: int, unit: str) -> None:
    if length > most:
        hint = "write a command as a list of arguments" if most == _MAX_LINE else "send less"
        raise _refused(f"{place or 'body'} has {length:,} {unit}, at most {most:,} are read", hint)


def _refused(detail: str, hint: str) -> HttpError:
    return HttpError(422, detail, place="body", hint=hint)
