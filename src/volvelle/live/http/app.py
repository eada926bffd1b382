"""The FastAPI application: all routes, behind the request limits and authentication."""

from collections.abc import Callable, Mapping
from functools import partial
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
from volvelle.live.http.prometheus import metrics_text
from volvelle.live.http.queue_feed import QueueFeed
from volvelle.live.http.quick_submissions import QuickSubmissions
from volvelle.live.http.quota import JobQuota
from volvelle.live.http.reads_only import ReadsOnly
from volvelle.live.http.request_limits import RequestLimits
from volvelle.live.http.responses import ToldTable
from volvelle.live.http.session_table import SessionTable
from volvelle.live.http.shares import Shares
from volvelle.live.http.shown_cluster import ShownCluster
from volvelle.live.http.streams import IsClosing, OpenStreams
from volvelle.live.store import Store
from volvelle.live.uploads import UPLOADS, Uploads
from volvelle.metrics.told import ToldClass

_SHORTER = "name a shorter span, or give it longer: limits.replay of the server's file"


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
    _show(app, controller, store, limits, is_closing)
    app.state.metrics_text = partial(metrics_text, controller)
    app.state.told = partial(queue.told_table, controller, store)
    app.state.replays = ForecastThreads(limits.replay, threads=1, hint=_SHORTER)
    app.state.fronts = FrontFolder(fronts)
    app.state.quota = JobQuota(limits.jobs, limits.jobs_of_a_user, limits.priority)
    app.state.warned = set()  # users that know that jobs may lose their work
    app.state.jobs_folder = jobs_folder
    app.state.uploads = Uploads(jobs_folder / UPLOADS)
    app.add_middleware(QuickSubmissions, path="/v1/jobs", submit=jobs.submit)
    app.add_middleware(LargeBodies)
    app.add_middleware(RequestLimits, body_bytes=limits.body_bytes, seconds=limits.request)
    return app


def create_reading_app(
    cluster: ShownCluster,
    store: Store,
    limits: Limits,
    metrics: Callable[[], bytes],
    told: Callable[[], str],
    owner: str,
    titles: Mapping[str, str],
    is_closing: IsClosing = lambda: False,
) -> FastAPI:
    """The API of a cluster that is attached: what reads, tokens, and sessions.

    store: of the tokens. metrics: in Prometheus' text format. told: the accuracy, in a sentence. owner:
    the scheduler that decides. titles: its words, by field of ``attached``.
    """
    app = create_routes()
    _show(app, cluster, store, limits, is_closing)
    app.state.metrics_text, app.state.owner, app.state.titles = metrics, owner, titles
    app.state.told = lambda: ToldTable(cluster.status.time, told(), ToldClass._fields, ())
    app.add_middleware(ReadsOnly, owner=owner)
    app.add_middleware(RequestLimits, body_bytes=limits.body_bytes, seconds=limits.request)
    return app


def _show(
    app: FastAPI, cluster: ShownCluster, store: Store, limits: Limits, is_closing: IsClosing
) -> None:
    """Let the reading routes of ``app`` show a cluster."""
    app.state.controller = cluster
    app.state.store = store
    app.state.authenticator = TokenAuthenticator(store)
    app.state.forecasts = ForecastThreads(limits.forecast)
    app.state.streams = OpenStreams(limits.streams_of_a_user)
    app.state.sessions = SessionTable()
    app.state.queue_feed = QueueFeed(cluster)
    app.state.shares = Shares(cluster, store)
    app.state.is_closing = is_closing
    app.state.owner, app.state.titles = "", {}


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
