"""The FastAPI application: all routes, behind the request limits and authentication."""

from pathlib import Path

from fastapi import FastAPI

from volvelle import __version__
from volvelle.live.config import Limits
from volvelle.live.control.controller import Controller
from volvelle.live.http import (
    dashboard,
    errors,
    forecasts,
    fronts,
    health,
    jobs,
    nodes,
    operations,
    past,
    queue,
    sessions,
    streams,
    uploads,
)
from volvelle.live.http.authentication import TokenAuthenticator
from volvelle.live.http.forecast_threads import ForecastThreads
from volvelle.live.http.kept_fronts import FrontFolder
from volvelle.live.http.large_bodies import LargeBodies
from volvelle.live.http.queue_feed import QueueFeed
from volvelle.live.http.quick_submissions import QuickSubmissions
from volvelle.live.http.quota import JobQuota
from volvelle.live.http.request_limits import RequestLimits
from volvelle.live.http.session_table import SessionTable
from volvelle.live.http.shares import Shares
from volvelle.live.http.streams import IsClosing, OpenStreams
from volvelle.live.store import Store
from volvelle.live.uploads import UPLOADS, Uploads


def create_app(
    controller: Controller,
    store: Store,
    limits: Limits,
    jobs_folder: Path,
    fronts: Path,
    is_closing: IsClosing = lambda: False,
) -> FastAPI:
    """The API of ``controller``.

    jobs_folder: the executor's, with the job logs. fronts: the folder of the fronts of searches. is_closing:
    whether the server is about to end, for streams.
    """
    app = create_routes()
    app.state.controller = controller
    app.state.store = store
    app.state.authenticator = TokenAuthenticator(store)
    app.state.forecasts = ForecastThreads(limits.forecast)
    app.state.replays = ForecastThreads(limits.replay, threads=1)
    app.state.fronts = FrontFolder(fronts)
    app.state.quota = JobQuota(limits.jobs, limits.jobs_of_a_user, limits.priority)
    app.state.streams = OpenStreams(limits.streams_of_a_user)
    app.state.sessions = SessionTable()
    app.state.queue_feed = QueueFeed(controller)
    app.state.shares = Shares(controller, store)
    app.state.jobs_folder = jobs_folder
    app.state.uploads = Uploads(jobs_folder / UPLOADS)
    app.state.is_closing = is_closing
    app.add_middleware(QuickSubmissions, path="/v1/jobs", submit=jobs.submit)
    app.add_middleware(LargeBodies)
    app.add_middleware(RequestLimits, body_bytes=limits.body_bytes, seconds=limits.request)
    return app


def create_routes() -> FastAPI:
    """The routes without a controller, for the OpenAPI document."""
    app = FastAPI(
        title="Volvelle",
        version=__version__,
        summary="A scheduler for GPU clusters that train models.",
        redirect_slashes=False,
        separate_input_output_schemas=False,
        docs_url=None,  # FastAPI's pages load scripts from elsewhere
        redoc_url=None,
    )
    described = (
        jobs,
        queue,
        uploads,
        forecasts,
        past,
        streams,
        nodes,
        operations,
        fronts,
        sessions,
        health,
    )
    for module in (*described, dashboard):
        app.include_router(module.router)
    errors.install(app)
    return app
