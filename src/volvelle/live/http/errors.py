"""Errors in one form: what is wrong, where, and how to mend it."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from volvelle.live.job_request import JobRequest
from volvelle.live.store import StoreFailed
from volvelle.model.problems import Problem
from volvelle.model.validation import describe_error, known_keys, telling

RETRY_AFTER_SECONDS = 5


class Trouble(BaseModel):
    """Every error of the API. ``place``: the key, the header or the job it is about."""

    thing: str = Field(description="what is wrong")
    place: str = Field("", description="where")
    mend: str = Field("", description="what to do about it")


class Refusal(Exception):  # noqa: N818 - it is what its name says
    """What a handler raises to answer with ``status`` and a `Trouble`."""

    def __init__(
        self,
        status: int,
        thing: str,
        *,
        place: str = "",
        mend: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(thing)
        self.status = status
        self.trouble = Trouble(thing=thing, place=place, mend=mend)
        self.headers = dict(headers or {})


def no_such_job(number: int) -> Refusal:
    """The same for jobs that are not there and for jobs of others."""
    return Refusal(
        404, f"there is no job {number}", place=f"job {number}", mend="see: volvelle queue"
    )


def later(thing: str) -> Refusal:
    """Nothing can be done now; the same may be asked again, with the same key."""
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
    return Refusal(503, thing, place="store", mend="try again soon", headers=headers)


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What the OpenAPI document says of the errors of a route; all can end with these and 503."""
    everywhere = (400, 401, 408, 413, 422, 503)
    return {status: {"model": Trouble} for status in sorted({*everywhere, *statuses})}


def refuse(status: int, trouble: Trouble, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that says no."""
    content = trouble.model_dump_json()
    return Response(content, status, headers=headers, media_type="application/json")


def install(app: FastAPI) -> None:
    """Let every error of ``app`` end as a `Trouble`."""
    app.add_exception_handler(Refusal, _refusal)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _plain)
    app.add_exception_handler(StoreFailed, _store_down)
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(Exception, _mistake)


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return refuse(error.status, error.trouble, error.headers)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = dict(telling(error.errors()))
    if first["type"] == "json_invalid":
        return refuse(422, Trouble(thing="the body is not JSON", place="body", mend="send JSON"))
    place, *first["loc"] = first["loc"]
    thing = describe_error(first, _KEYS)
    return refuse(
        422, Trouble(thing=_short(thing), place=str(place), mend="see: /docs of this server")
    )


async def _plain(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    trouble = Trouble(thing=str(error.detail).lower(), mend="see: /docs of this server")
    return refuse(error.status_code, trouble, error.headers)


async def _store_down(_: Request, error: Exception) -> Response:
    assert isinstance(error, StoreFailed)
    refusal = later("the store cannot be reached")
    return refuse(refusal.status, refusal.trouble, refusal.headers)


async def _problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return refuse(409, Trouble(thing=_short(str(error.args[0])), mend=error.mend))


async def _mistake(_: Request, error: Exception) -> Response:
    """A mistake of ours: its traceback is in the server's log, not in the answer."""
    return refuse(
        500, Trouble(thing="the server made a mistake", mend="its operator finds it in the log")
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


_KEYS = known_keys(JobRequest)
_LONGEST = 500
