"""``/v1/uploads``: working directories of jobs, by the hash of their content."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from starlette.concurrency import run_in_threadpool

from volvelle.live.http.dependencies import AnyPrincipal, TheController
from volvelle.live.http.errors import error_responses
from volvelle.live.http.responses import UploadView, json_response
from volvelle.live.uploads import DIGEST, Uploads

router = APIRouter(prefix="/v1/uploads", tags=["jobs"])

Digest = Annotated[str, Path(pattern=DIGEST, description="SHA-256 of the content")]
_CONTENT = {"requestBody": {"content": {"application/octet-stream": {}}, "required": True}}


@router.get("/{digest}", response_model=UploadView, responses=error_responses())
async def find_upload(digest: Digest, principal: AnyPrincipal, request: Request) -> Response:
    """Whether it need not be sent again."""
    return json_response(UploadView(await is_kept(request, digest)))


@router.put(
    "/{digest}", status_code=204, responses=error_responses(409, 413), openapi_extra=_CONTENT
)
async def upload(
    digest: Digest, principal: AnyPrincipal, request: Request, controller: TheController
) -> Response:
    """Upload a tar. A job names it as ``upload``, and starts where its files are."""
    uploads: Uploads = request.app.state.uploads
    jobs = controller.status.jobs.values()
    named = {str(job.request["upload"]) for job in jobs if job.request and "upload" in job.request}
    content = await request.body()
    await run_in_threadpool(uploads.keep, digest, content, principal.user, named)
    return Response(status_code=204)


async def is_kept(request: Request, digest: str) -> bool:
    """Whether the content with this digest is there; it is used now."""
    uploads: Uploads = request.app.state.uploads
    return await run_in_threadpool(uploads.find, digest) is not None
