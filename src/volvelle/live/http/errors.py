"""HTTP errors, all with the same body: what is wrong, where, and a hint."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from volvelle.live.control.requests import KeyUsedBefore
from volvelle.live.job_request import JobRequest
from volvelle.live.store import StoreFailed
from volvelle.model.problems import Problem
from volvelle.model.validation import UNKNOWN, describe_error, known_keys, telling

RETRY_AFTER_SECONDS = 5


class ProblemDetails(BaseModel):
    """The body of every error. ``place``: the key, the header or the job it is about."""

    detail: str = Field(description="what is wrong")
    place: str = Field("", description="where")
    hint: str = Field("", description="what to do about it")


class HttpError(Exception):
    """Raised by a handler to answer with ``status`` and `ProblemDetails`."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        place: str = "",
        hint: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.problem = ProblemDetails(detail=detail, place=place, hint=hint)
        self.headers = dict(headers or {})


def no_such_job(number: int) -> HttpError:
    """The error for missing jobs."""
    hint = "see: volvelle queue"
    return HttpError(404, f"there is no job {number}", place=f"job {number}", hint=hint)


def not_yours(number: int, user: str) -> HttpError:
    """The error for jobs of other users. user: as the queue names it; empty where the job is over."""
    hint = f"ask {user}, whose it is, or an operator" if user else "it is over; ask an operator"
    return HttpError(404, f"job {number} is not yours", place=f"job {number}", hint=hint)


def unavailable(detail: str, hint: str = "try again soon") -> HttpError:
    """The request cannot be handled now and may be repeated, with the same idempotency key."""
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)}
    return HttpError(503, detail, place="store", hint=hint, headers=headers)


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route for the OpenAPI document: these, and those of every route."""
    common = (400, 401, 408, 413, 422, 503)
    return {status: {"model": ProblemDetails} for status in sorted({*common, *statuses})}


def error_response(
    status: int, problem: ProblemDetails, headers: Mapping[str, str] | None = None
) -> Response:
    """A response with an error."""
    content = problem.model_dump_json()
    return Response(content, status, headers=headers, media_type="application/json")


def install(app: FastAPI) -> None:
    """Let every error of ``app`` answer with `ProblemDetails`."""
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_framework_error)
    for kind in HANDLED:
        app.add_exception_handler(kind, handle)
    app.add_exception_handler(Exception, _on_bug)


HANDLED = (HttpError, StoreFailed, Problem)
"""Errors that our own code raises, and `handle` answers."""


async def handle(_: Request, error: Exception) -> Response:
    """The answer to one of `HANDLED`."""
    if isinstance(error, StoreFailed):
        error = unavailable("the store cannot be reached")
    if isinstance(error, HttpError):
        return error_response(error.status, error.problem, error.headers)
    assert isinstance(error, Problem)
    problem = ProblemDetails(detail=shorten(str(error.args[0])), hint=error.mend)
    return error_response(422 if isinstance(error, KeyUsedBefore) else 409, problem)


async def _on_invalid_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = dict(telling(error.errors()))
    if first["type"] == "json_invalid":
        problem = ProblemDetails(detail="the body is not JSON", place="body", hint="send JSON")
        return error_response(422, problem)
    place, *first["loc"] = first["loc"]
    if place == "query":  # its values have no places
        del first["loc"][1:]
    detail = shorten(describe_error(first, _KEYS))
    hint = schema_hint(first["type"])
    return error_response(422, ProblemDetails(detail=detail, place=str(place), hint=hint))


def schema_hint(kind: str) -> str:
    """The place of the schema, for errors about keys; empty for one about a value. kind: pydantic's."""
    return _SCHEMA if kind in ("missing", *UNKNOWN) else ""


async def _on_framework_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    problem = ProblemDetails(detail=str(error.detail).lower(), hint=_SCHEMA)
    return error_response(error.status_code, problem, error.headers)


async def _on_bug(_: Request, error: Exception) -> Response:
    """A bug of ours: its traceback is in the server's log, not in the response."""
    problem = ProblemDetails(
        detail="the server made a mistake", hint="its operator finds it in the log"
    )
    return error_response(500, problem)


def shorten(text: str) -> str:
    """The beginning of a text that may repeat what was sent."""
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]} ..."


_SCHEMA = "see: /openapi.json of this server"
_KEYS = known_keys(JobRequest)
_MAX_LENGTH = 500
