"""Runs a server from its configuration: store, executor, controller and HTTP API."""

import gc
import getpass
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fastapi import FastAPI

from volvelle import __version__
from volvelle.core.journal import Header
from volvelle.live.agent.job_users import check_run_as
from volvelle.live.agent.processes import boot_id, since_boot
from volvelle.live.config import Limits, Listen, ServeConfig
from volvelle.live.control.clock import Clock
from volvelle.live.control.controller import Controller
from volvelle.live.control.secret_box import SecretBox
from volvelle.live.http.app import create_app
from volvelle.live.http.authentication import digest_of, new_token
from volvelle.live.http.server import bind, serve, url_of
from volvelle.live.http.streams import IsClosing
from volvelle.live.nodes.executor import Executor, ExecutorContext
from volvelle.live.role import Role
from volvelle.live.serve_folder import ServeFolder, ServerAddress, read_secret, write_secret
from volvelle.live.status.view import Health
from volvelle.live.store import Store
from volvelle.live.store.node_keys import StoredKeys
from volvelle.model.cluster import Cluster
from volvelle.model.problems import Problem

_SWITCH_SECONDS = 0.001
"""So long the thread that answers requests waits for the controller's at most, where both compute."""

_JOIN_SECONDS = 10.0
"""So long requests wait for the nodes that the server starts itself."""

_SHARED_USERS = (
    "Jobs run as the users of run_as: whose jobs run as the same one can read and end each other's."
)


@dataclass(frozen=True)
class RunningServer:
    """A server in operation. ``policy``: that decides from now on, also if another did before.

    trust: see `Executor`. joining: the command with which a node joins; empty: nodes need none.
    """

    url: str
    policy: str
    folder: ServeFolder
    cluster: Cluster
    controller: Controller
    trust: str
    joining: str


def run_server(
    config: ServeConfig,
    on_ready: Callable[[RunningServer], None],
    at_end: Callable[[Controller], None] = lambda controller: None,
) -> None:
    """Serve until a signal to stop; jobs run on. ``on_ready`` is called when requests are answered.

    at_end: called once none is answered any more, while jobs can still be ended. Raises `Problem` if
    ``config`` cannot be served.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    cluster = config.read_cluster()
    executor = config.make_executor()
    header = Header(
        volvelle=__version__,
        cluster=cluster.main,
        composition=config.composition,
        overheads=config.overheads.model_dump(),
        seed=config.seed,
        whole=None if cluster.profiling is None else cluster,
    )
    policy = config.composition.build().policy.label
    folder = ServeFolder(config.folder)
    folder.prepare()
    _check_run_as(config, executor, folder)
    trust = _SHARED_USERS if config.run_as else executor.trust
    joining = executor.joining_command(cluster.main, folder.agents_token_file)
    with _private_files() as umask, bind(config.listen) as socket:
        store = Store.open(config.store_url)
        token = _agents_token(folder)
        keys = StoredKeys(store.tokens, token)
        context = ExecutorContext(
            cluster, config.jobs_folder, token, joined=keys, umask=umask, run_as=config.run_as
        )
        with _many_objects_that_stay():
            controller = Controller(
                store,
                header,
                executor,
                context,
                Clock(since_boot=since_boot, boot=boot_id, kept=folder.clock_file),
                secrets=SecretBox(config.secrets_file),
                notifications=config.notifications,
                keep_history=config.keep_history,
            )
        url = url_of(socket, config.listen)
        certificate = config.listen.certificate

        def publish() -> None:
            path = str(certificate.resolve()) if certificate else None
            folder.write_address(ServerAddress(url, path))
            on_ready(RunningServer(url, policy, folder, cluster, controller, trust, joining))

        try:
            controller.start()
            with store.at_start():
                _ensure_first_token(folder, store)
            if executor.starts_agents:
                _wait_for_nodes(controller)
            serve(
                partial(
                    create_app,
                    controller,
                    store,
                    config.limits,
                    controller.executor_context.folder,
                    config.fronts_folder,
                ),
                config.listen,
                config.limits,
                socket,
                publish,
                lambda: controller.health,
            )
            at_end(controller)
            if failure := controller.health.failure:
                back = "put the store or a backup back, " if store.loss else ""
                mend = f"jobs run on; {back}start volvelle serve again, and it takes them over"
                raise Problem(failure.removesuffix("."), mend=mend)
        finally:
            folder.remove_address()
            controller.stop()


def run_reader(
    path: Path,
    listen: Listen,
    make_app: Callable[[Store, IsClosing], FastAPI],
    health: Callable[[], Health],
    on_ready: Callable[[str], None],
) -> None:
    """Show a cluster that others run until a signal to stop; ``on_ready`` is called with the URL.

    path: the folder of the address and of the tokens. Raises `Problem` if it cannot be served.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    folder = ServeFolder(path)
    folder.prepare()
    with _private_files(), bind(listen) as socket:
        store = Store.open(f"sqlite:///{path}/store.db")
        with store.at_start():
            store.claim()
            _ensure_first_token(folder, store)
        url = url_of(socket, listen)

        def publish() -> None:
            certificate = str(listen.certificate.resolve()) if listen.certificate else None
            folder.write_address(ServerAddress(url, certificate))
            on_ready(url)

        try:
            serve(partial(make_app, store), listen, Limits(), socket, publish, health)
        finally:
            folder.remove_address()
            store.close()


def _check_run_as(config: ServeConfig, executor: Executor, folder: ServeFolder) -> None:
    """Let jobs that run as other users pass through the server's folder. Raises `Problem`."""
    if config.run_as and not executor.heeds_run_as:
        raise Problem(
            f"executor {executor.name!r} does not start jobs as other users",
            mend="leave run_as out; volvelle agent has --run-as",
        )
    check_run_as(config.run_as, [folder.path])


@contextmanager
def _private_files() -> Iterator[int]:
    """Files of this process are readable by its owner only. Yields the umask of before, that of jobs."""
    umask = os.umask(0o077)
    try:
        yield umask
    finally:
        os.umask(umask)


@contextmanager
def _many_objects_that_stay() -> Iterator[None]:
    """Collect no garbage while thousands of jobs are read, nor ever look for it among them."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _wait_for_nodes(controller: Controller) -> None:
    """Let the nodes that this server starts itself join, so that its first users find GPUs."""
    end = time.monotonic() + _JOIN_SECONDS
    while time.monotonic() < end and not controller.health.failure:
        if not controller.awaits_nodes:
            return
        time.sleep(0.02)


def _agents_token(folder: ServeFolder) -> str:
    """The token with which agents join. It outlives the server, as agents do."""
    token = read_secret(folder.agents_token_file)
    if not token:
        token = secrets.token_urlsafe(32)
        write_secret(folder.agents_token_file, token)
    return token


def _ensure_first_token(folder: ServeFolder, store: Store) -> None:
    """Make sure that the folder has a valid token, so that its owner is an operator."""
    kept = store.tokens.find(digest_of(read_secret(folder.token_file)))
    if kept is None or not kept.valid(time.time()):
        token, row = new_token(getpass.getuser(), Role.OPERATOR, "the first, kept in the folder")
        store.tokens.add(row)
        write_secret(folder.token_file, token)
