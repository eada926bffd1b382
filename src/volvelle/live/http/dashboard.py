"""``/``: the web page of the server. It has no data in it; its scripts ask the API."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from volvelle.dashboard.page import PAGE_HEADERS, ROOT, page_file
from volvelle.live.http.errors import HttpError

router = APIRouter(include_in_schema=False)


@router.get("/")
async def to_dashboard() -> Response:
    """The page is where its relative addresses hold."""
    return RedirectResponse(f"{ROOT}/", status_code=307)


@router.get(f"{ROOT}/{{path:path}}")
async def dashboard_file(path: str, request: Request) -> Response:
    """A file of the dashboard."""
    found = page_file(path)
    if found is None:
        raise HttpError(404, f"there is no {path!r} in the dashboard", hint=f"open {ROOT}/")
    headers = {**PAGE_HEADERS, "ETag": found.etag}
    if request.headers.get("If-None-Match") == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.body, headers=headers, media_type=found.media_type)
