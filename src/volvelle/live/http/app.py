"""The application: all routes together, behind the limits and the gate."""

from pathlib import Path

from fastapi import FastAPI

from volvelle import __version__
from volvelle.live.config import Limits as LimitsConfig
from volvelle.live.control.controller import Controller
from volvelle.live.http import errors, forecasts, health, jobs, nodes, operations, streams
from volvelle.live.http.authentication import Gate
from volvelle.live.http.request_limits import Limits
from volvelle.live.http.streams import Closing
from volvelle.live.store import Store


def application(
    controller: Controller,
    store: Store,
    limits: LimitsConfig,
    jobs_folder: Path,
    closing: Closing = lambda: False,
) -> FastAPI:
    """The API of ``controller``.

    jobs_folder: the executor's, where the logs are. closing: tells those who listen for long that the
    server is about to end.
    """
    app = unplugged()
    app.state.controller = controller
    app.state.store = store
    app.state.gate = Gate(store)
    app.state.room = jobs.Room(limits.jobs, limits.jobs_of_a_user)
    app.state.jobs_folder = jobs_folder
    app.state.closing = closing
    app.add_middleware(Limits, body_bytes=limits.body_bytes, seconds=limits.request)
    return app


def unplugged() -> FastAPI:
    """The routes and their document, with nothing behind them."""
    app = FastAPI(
        title="Volvelle",
        version=__version__,
        summary="A scheduler for GPU clusters that train models.",
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    for room in (jobs, forecasts, streams, nodes, operations, health):
        app.include_router(room.router)
    errors.install(app)
    return app
