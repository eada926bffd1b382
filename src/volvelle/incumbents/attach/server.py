"""``--listen`` of ``volvelle attach``: polls in a thread of their own, the HTTP API in the main one."""

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Response
from pydantic import Field

from volvelle.incumbents.attach.attached import AttachedCluster
from volvelle.incumbents.attach.effects import Present, effects
from volvelle.incumbents.attach.follow import Attached
from volvelle.incumbents.attach.incumbent import Incumbent
from volvelle.incumbents.attach.listing import heading, prometheus
from volvelle.incumbents.attach.session import Asked, Publishes, Session
from volvelle.live.config import Limits, Listen
from volvelle.live.http.app import create_reading_app
from volvelle.live.http.dependencies import OperatorPrincipal, TheForecastThreads
from volvelle.live.http.prometheus import state_text
from volvelle.live.http.responses import json_response
from volvelle.live.http.streams import IsClosing
from volvelle.live.serving import run_reader
from volvelle.live.store import Store
from volvelle.live.strict_model import StrictModel
from volvelle.model.problems import Problem


def serve(
    asked: Asked,
    of: Incumbent[Any, Any],
    folder: Path,
    every: float,
    listen: Listen,
    say: Callable[[str], None],
    publisher: Publishes | None = None,
) -> None:
    """Show a cluster until a signal to stop. Raises `Problem` where the first poll has no answer."""
    cluster = AttachedCluster(of.name)
    session, stop = Session(asked, folder, of, cluster.take, publisher), Event()
    polls = Thread(target=_poll, args=(session, cluster, every, stop), name="polls")

    def ready(url: str) -> None:
        assert session.follower is not None
        written = (
            f"nothing is written to {of.title}" if publisher is None else "comments tell starts"
        )
        say(f"{heading(session.follower)}\nat {url}; {written}. Ctrl-C stops.")
        say(f"In a browser it asks for a token: {folder / 'token'} has the first operator's.")

    try:
        session.step()
        polls.start()
        run_reader(folder, listen, api(session, cluster), lambda: cluster.health, ready)
    finally:
        stop.set()
        if polls.is_alive():
            polls.join()
        session.close()


def api(session: Session, cluster: AttachedCluster) -> Callable[[Store, IsClosing], FastAPI]:
    """The application of a cluster of which a poll had an answer, over a store of tokens."""
    follower = session.follower
    assert follower is not None

    def metrics() -> bytes:
        return state_text(cluster.status) + prometheus(follower).encode()

    def application(store: Store, is_closing: IsClosing) -> FastAPI:
        store.jobs = cluster.ended
        owner = f"{follower.site.title} of {follower.site.cluster}"
        app = create_reading_app(
            cluster,
            store,
            Limits(),
            metrics,
            follower.accuracy.line,
            owner,
            follower.incumbent.titles,
            is_closing,
        )
        app.include_router(_what_if(session, follower))
        return app

    return application


class SiteQuestion(StrictModel):
    """Changes of a site, as its scheduler's own tools write them."""

    changes: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=2000)], ...],
        Field(min_length=1, max_length=20),
    ]


def _what_if(session: Session, follower: Attached) -> APIRouter:
    """The route of what changes of the site would bring to the jobs that wait."""
    router = APIRouter(prefix="/v1/forecast/site")

    @router.get("")
    async def examples(_: OperatorPrincipal) -> Response:
        found = follower.incumbent.examples(follower.site)
        return json_response({"examples": [{"of": of, "change": one} for of, one in found]})

    @router.post("")
    async def forecast_site(
        question: SiteQuestion, principal: OperatorPrincipal, threads: TheForecastThreads
    ) -> Response:
        def work() -> list[dict[str, Any]]:
            with session.learning:
                now = Present.of(follower)
            return [one._asdict() for one in effects(now, question.changes)]

        return json_response({"effects": await threads.run(principal, work)})

    return router


def _poll(session: Session, cluster: AttachedCluster, every: float, stop: Event) -> None:
    try:
        for told in session.steps(every, stop):
            cluster.problem = str(told) if isinstance(told, Problem) else ""
    except Exception as error:
        cluster.failure = f"polls have ended: {error!r}"
        raise
