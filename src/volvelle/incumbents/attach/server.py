"""``--listen`` of ``volvelle attach``: polls in a thread of their own, the HTTP API in the main one."""

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

from fastapi import FastAPI

from volvelle.incumbents.attach.attached import AttachedCluster
from volvelle.incumbents.attach.incumbent import Incumbent
from volvelle.incumbents.attach.listing import heading, prometheus
from volvelle.incumbents.attach.session import Asked, Publishes, Session
from volvelle.live.config import Limits, Listen
from volvelle.live.http.app import create_reading_app
from volvelle.live.http.prometheus import state_text
from volvelle.live.http.streams import IsClosing
from volvelle.live.serving import run_reader
from volvelle.live.store import Store
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
        return create_reading_app(
            cluster, store, Limits(), metrics, follower.accuracy.line, owner, is_closing
        )

    return application


def _poll(session: Session, cluster: AttachedCluster, every: float, stop: Event) -> None:
    try:
        for told in session.steps(every, stop):
            cluster.problem = str(told) if isinstance(told, Problem) else ""
    except Exception as error:
        cluster.failure = f"polls have ended: {error!r}"
        raise
