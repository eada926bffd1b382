"""A server from its configuration: store, executor, controller and API, each from those before it."""

import getpass
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from volvelle import __version__
from volvelle.core.journal import Header
from volvelle.live.config import ServeConfig
from volvelle.live.control.controller import Controller
from volvelle.live.http.authentication import digest_of, new_token
from volvelle.live.http.role import Role
from volvelle.live.http.server import bound, serve, url_of
from volvelle.live.nodes.executor import ExecutorContext
from volvelle.live.serve_folder import Announced, ServeFolder, keep_secret, read_secret
from volvelle.live.store import Store
from volvelle.model.cluster import Cluster


@dataclass(frozen=True)
class Serving:
    """A server at work. ``policy``: that decides from now on, also where another did before."""

    url: str
    policy: str
    folder: ServeFolder
    cluster: Cluster
    controller: Controller


def run(config: ServeConfig, ready: Callable[[Serving], None]) -> None:
    """Serve until told to stop; jobs run on. ``ready`` is called when the first request can come.

    Raises `Problem` where something of ``config`` cannot be.
    """
    cluster = config.read_cluster()
    executor = config.make_executor()
    header = Header(
        volvelle=__version__,
        cluster=cluster,
        composition=config.composition,
        overheads=config.overheads.model_dump(),
        seed=config.seed,
    )
    policy = config.composition.build().policy.label
    folder = ServeFolder(config.folder)
    folder.prepare()
    with bound(config.listen) as opened:
        store = Store.open(config.store_url)
        site = ExecutorContext(cluster, config.jobs_folder, _agents_token(folder))
        controller = Controller(store, header, executor, site)
        url = url_of(opened, config.listen)
        certificate = config.listen.certificate

        def begin() -> None:
            folder.announce(Announced(url, str(certificate.resolve()) if certificate else None))
            ready(Serving(url, policy, folder, cluster, controller))

        try:
            controller.start()
            _first_token(folder, store)
            serve(controller, store, config, opened, begin)
        finally:
            folder.withdraw()
            controller.stop()


def _agents_token(folder: ServeFolder) -> str:
    """Outlives the server, as agents do."""
    token = read_secret(folder.agents_token_file)
    if not token:
        token = secrets.token_urlsafe(32)
        keep_secret(folder.agents_token_file, token)
    return token


def _first_token(folder: ServeFolder, store: Store) -> None:
    """See to it that whoever owns the folder is an operator."""
    held = store.token(digest_of(read_secret(folder.token_file)))
    if held is None:
        token, kept = new_token(getpass.getuser(), Role.OPERATOR, "the first, kept in the folder")
        store.add_token(kept)
        keep_secret(folder.token_file, token)
