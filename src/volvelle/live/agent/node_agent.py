"""The agent of a node: runs its tasks and reports them to the agents server."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import msgspec

from volvelle.live.agent import wire
from volvelle.live.agent.containers import NoEngineError
from volvelle.live.agent.controller_connection import ControllerConnection, RefusedError
from volvelle.live.agent.files import lock
from volvelle.live.agent.folders import AgentFolder, AgentSettings
from volvelle.live.agent.job_users import give_as_it_is, job_user, let_through
from volvelle.live.agent.launch import UPLOADED, free_port, job_folder, prepare_task
from volvelle.live.agent.logs import log_sizes, read_log
from volvelle.live.agent.node_condition import disk_problem
from volvelle.live.agent.node_lease import NodeLease
from volvelle.live.agent.processes import kill_all_below, kill_remaining, seconds_ago, since_boot
from volvelle.live.agent.retention_clock import RetentionClock
from volvelle.live.agent.task_runner import TaskRunner
from volvelle.live.agent.upload_fetcher import UploadFetcher
from volvelle.live.agent.wire import TaskEnded
from volvelle.live.messages import AttemptKey, Forget, JournalPosition, Outcome, SetBatchSize, Stop
from volvelle.live.uploads import UnusableUploadError, unpack

_REPEAT_SECONDS = 5.0
_PRUNE_SECONDS = 3600.0
_LEASE_CHECK_SECONDS = 0.2


class NodeAgent:
    """Works in ``folder`` for the node of ``settings``."""

    def __init__(
        self,
        folder: AgentFolder,
        settings: AgentSettings,
        on_problem: Callable[[str], None],
        on_connected: Callable[[], None],
    ) -> None:
        self._folder, self._settings, self._on_connected = folder, settings, on_connected
        self._runners: dict[AttemptKey, TaskRunner] = {}
        self._failed_starts: dict[AttemptKey, TaskEnded] = {}
        """Ends of tasks that could not be prepared, and so have no folder."""
        self._latest_attempts = folder.latest_attempts()
        self._last_position: JournalPosition | None = None
        self._connection = ControllerConnection(
            settings, folder.identity, self._on_welcome, self._on_message, on_problem
        )
        self._work = Path(settings.work) if settings.work else folder.path
        self._problem = ""
        """The reason why the node can start nothing, as last sent to the server."""
        self._background: asyncio.TaskGroup
        self._lease = NodeLease(folder.lease)
        self._uploads = UploadFetcher(folder.path / "uploads", self._connection.send)
        self._fetching: dict[AttemptKey, tuple[wire.NodeTask, asyncio.Task[None]]] = {}
        """Tasks whose working directories are on their way."""
        self._dismissed = False

    async def run(self) -> None:
        """Take over running tasks, then serve until the agent is not needed. Raises `RefusedError`."""
        async with asyncio.TaskGroup() as self._background:
            for key in self._folder.active_attempts():
                try:
                    self._run_task(key)
                except (OSError, ValueError, msgspec.MsgspecError):
                    await self._discard_unreadable(key)
            loops = [
                self._connection.run(),
                self._report_repeatedly(),
                self._prune_repeatedly(),
                self._check_repeatedly(),
            ]
            tasks = [self._background.create_task(loop) for loop in loops]
            await self._until_not_needed()
            for task in tasks:
                task.cancel()

    def _run_task(self, key: AttemptKey) -> None:
        attempt = self._folder.attempt(key)
        runner = TaskRunner(attempt, self._connection.send, self._check_condition)
        self._runners[key] = runner
        self._background.create_task(runner.run())

    async def _discard_unreadable(self, key: AttemptKey) -> None:
        """Remove an attempt whose folder cannot be read; usually its preparation was interrupted."""
        folder = self._folder.attempt(key)
        await kill_remaining(folder.path, folder.supervisor)
        self._folder.discard(key)

    # ------------------------------------------------------------------ messages

    def _on_welcome(self, welcome: wire.Welcome) -> None:
        self._lease.seconds, self._dismissed = welcome.lease_seconds, False
        tasks = [runner.state for runner in self._runners.values()]
        tasks += self._failed_starts.values()
        self._connection.send(
            wire.NodeInventory(tuple(tasks), self._folder.journals, self._problem, keeps_ends=True)
        )
        for runner in self._runners.values():
            for request in (runner.signal_request, runner.exit_request):
                if request is not None:
                    self._connection.send(request)
        self._on_connected()

    def _on_message(self, message: wire.ToAgent) -> None:
        match message:
            case wire.StartTask():
                self._start(message)
            case Stop():
                if runner := self._runners.get(message.key):
                    runner.stop(kill=message.kill)
                elif message.key in self._fetching:
                    task, fetching = self._fetching.pop(message.key)
                    fetching.cancel()
                    self._report_failed_start(task, Outcome.STOPPED, "")
            case Forget():
                self._forget(message.key)
            case SetBatchSize():
                if runner := self._runners.get(message.key):
                    runner.set_batch_size(message.batch_size)
            case wire.SignalTask():
                if runner := self._runners.get(message.key):
                    runner.send_stop_signal()
            case wire.ExitAt():
                if runner := self._runners.get(message.key):
                    runner.exit_at(message.iteration)
            case wire.ExitConfirmed():
                if runner := self._runners.get(message.key):
                    runner.confirm_exit(message.iteration)
            case wire.UploadChunk():
                self._uploads.on_chunk(message)
            case wire.ListEnds():
                self._background.create_task(self._send_ends(message.numbers))
            case wire.ListLogs() | wire.ReadLog():
                self._background.create_task(self._send_logs(message))
            case wire.Dismissed():
                self._dismissed = True
            case wire.Pong():
                self._lease.renew(message.at)
                self._remember(message.position)

    def _remember(self, position: JournalPosition | None) -> None:
        if position is not None and position != self._last_position:
            with contextlib.suppress(OSError):  # told again
                self._folder.remember(position)
                self._last_position = position

    def _start(self, order: wire.StartTask) -> None:
        task = order.task
        if runner := self._runners.get(task.key):
            if runner.reported is not None:
                self._connection.send(runner.state)
            return
        if task.key in self._fetching:
            return
        if self._latest_attempts.get((task.number, task.identity), 0) >= task.attempt:
            reason = "this attempt, or a later one, was started here before"
            self._report_failed_start(task, Outcome.LOST, reason)
            return
        if holder := self._holder(order):
            reason = f"attempt {holder} runs here, of which the server may not know"
            self._report_failed_start(task, Outcome.LOST, reason)
            return
        self._latest_attempts[task.number, task.identity] = task.attempt
        if order.start.launch.upload:
            fetching = self._background.create_task(self._start_with_upload(order))
            self._fetching[task.key] = task, fetching
        else:
            self._prepare(order)

    async def _start_with_upload(self, order: wire.StartTask) -> None:
        """Start a task once its working directory is here."""
        key = order.task.key
        try:
            archive = await self._uploads.fetch(order.start.launch.upload)
            directory = job_folder(key, self._folder, self._settings) / UPLOADED
            user = job_user(self._settings.run_as, order.start.user)
            await asyncio.to_thread(unpack, archive, directory, partial(give_as_it_is, user))
        except OSError as error:
            self._report_impossible_start(order.task, error)
        else:
            self._prepare(order)
        self._fetching.pop(key, None)

    def _prepare(self, order: wire.StartTask) -> None:
        task = order.task
        try:
            order = order if order.port else msgspec.structs.replace(order, port=free_port())
            prepare_task(order, self._folder, self._settings, self._lease.file)
            self._run_task(task.key)
        except NoEngineError as error:
            self._folder.discard(task.key)
            self._report_failed_start(task, Outcome.FAILED, str(error), permanent=True)
        except OSError as error:
            self._folder.discard(task.key)
            self._report_impossible_start(task, error)

    def _holder(self, order: wire.StartTask) -> AttemptKey | None:
        """A running attempt of the same job, or on a GPU of ``order``; None if there is none.

        The server knows better, unless its store was set back.
        """
        gpus = set(order.start.grants[order.rank].gpus)
        for key, runner in self._runners.items():
            held = runner.order.start.grants[runner.order.rank].gpus
            same = (key.number, key.job) == (order.task.number, order.task.key.job)
            if runner.running and (same or not gpus.isdisjoint(held)):
                return key
        return None

    def _report_impossible_start(self, task: wire.NodeTask, error: OSError) -> None:
        permanent = isinstance(error, UnusableUploadError)
        self._report_failed_start(
            task,
            Outcome.FAILED,
            f"could not begin: {error}",
            permanent=permanent,
            node_failed=bool(self._check_condition()) and not permanent,
        )

    def _report_failed_start(
        self,
        task: wire.NodeTask,
        outcome: Outcome,
        reason: str,
        *,
        permanent: bool = False,
        node_failed: bool = False,
    ) -> None:
        ended = TaskEnded(
            task=task,
            outcome=outcome,
            reason=reason,
            permanent=permanent,
            node_failed=node_failed,
        )
        self._failed_starts[task.key] = ended
        self._connection.send(ended)

    def _forget(self, key: AttemptKey) -> None:
        self._failed_starts.pop(key, None)
        runner = self._runners.get(key)
        if runner is not None and isinstance(end := runner.state, TaskEnded):
            del self._runners[key]
            with contextlib.suppress(OSError):  # reported again, and forgotten again
                self._folder.archive(end)

    async def _send_ends(self, numbers: Iterable[int]) -> None:
        """Answer a server whose store was set back, in a thread as there may be many folders."""
        ends = await asyncio.to_thread(_past_ends, self._folder, numbers)
        self._connection.send(wire.PastEnds(ends))

    async def _send_logs(self, request: wire.ListLogs | wire.ReadLog) -> None:
        """Answer a request for logs, in a thread: a slow disk must not delay other messages."""
        folder = self._folder.path
        if isinstance(request, wire.ListLogs):
            sizes = await asyncio.to_thread(log_sizes, folder, request.number, request.job)
            self._connection.send(wire.LogSizes(request.request_id, sizes))
            return
        position = request.attempt, request.offset, request.max_bytes
        content = await asyncio.to_thread(read_log, folder, *position)
        self._connection.send(wire.LogChunk(request.request_id, content))

    # ------------------------------------------------------------------ background loops

    def _check_condition(self) -> str:
        """Why the node can start nothing now; sent to the server when that changes."""
        return self._set_condition(disk_problem(self._folder.path, self._work, self._problem))

    def _set_condition(self, problem: str) -> str:
        if problem != self._problem:
            self._problem = problem
            self._connection.send(wire.Condition(problem))
        return problem

    async def _check_repeatedly(self) -> None:
        """Check the node's condition at an interval, in a thread: a slow disk must not delay messages."""
        where = self._folder.path, self._work
        while True:
            self._set_condition(await asyncio.to_thread(disk_problem, *where, self._problem))
            await asyncio.sleep(_REPEAT_SECONDS)

    async def _report_repeatedly(self) -> None:
        """Report progress at an interval, and ends until they are forgotten."""
        repeat_at = time.monotonic() + _REPEAT_SECONDS
        while True:
            await asyncio.sleep(self._settings.progress_seconds)
            if not self._connection.connected:
                continue
            for runner in self._runners.values():
                if (progress := runner.progress) and (changes := progress.changes()):
                    self._connection.send(changes)
            if time.monotonic() < repeat_at:
                continue
            repeat_at = time.monotonic() + _REPEAT_SECONDS
            ends = [runner.state for runner in self._runners.values() if not runner.running]
            for ended in (*ends, *self._failed_starts.values()):
                self._connection.send(ended)

    async def _prune_repeatedly(self) -> None:
        """Remove files of attempts after the retention time."""
        retention = self._settings.retention_seconds
        clock = RetentionClock(self._folder.path / "clock")
        while True:
            with contextlib.suppress(OSError):  # tried again
                await asyncio.to_thread(self._folder.prune, clock.now() - retention)
            await asyncio.sleep(min(_PRUNE_SECONDS, retention))

    async def _until_not_needed(self) -> None:
        """Enforce the lease; return once idle, when dismissed or a long time without a controller."""
        idle_since = time.monotonic()
        linger = self._settings.linger_seconds
        while linger is None or time.monotonic() - idle_since < linger:
            running = [runner for runner in self._runners.values() if runner.running]
            if running or self._connection.connected:
                idle_since = time.monotonic()
            if self._dismissed and not running and not self._fetching:
                return
            for runner in running:
                if self._lease.expires_within(runner.order.start.launch.grace_seconds):
                    runner.stop(kill=False, reason=self._lease.reason)
            await asyncio.sleep(_LEASE_CHECK_SECONDS)


async def run_agent(
    folder: AgentFolder,
    settings: AgentSettings,
    on_problem: Callable[[str], None] = lambda problem: None,
    on_connected: Callable[[], None] = lambda: None,
) -> bool:
    """Run the agent in ``folder`` until it is not needed; return False at once if one runs there already.

    on_problem: called with a message for people why there is no connection to the controller.
    on_connected: called after each handshake. Raises `RefusedError`.
    """
    with lock(folder.path / "lock") as free:
        try:
            if free:
                if folder.is_new:  # nobody knows of what ran in one that was deleted
                    await kill_all_below(folder.attempts)
                if settings.run_as:
                    let_through(folder.path)
                    let_through(folder.attempts)
                await NodeAgent(folder, settings, on_problem, on_connected).run()
        except* RefusedError as refusals:
            raise refusals.exceptions[0] from None
        return free


def _past_ends(folder: AgentFolder, numbers: Iterable[int]) -> tuple[TaskEnded, ...]:
    """Of each of these jobs the last end that ``folder`` has, and all ends with which one finished."""
    finished: list[TaskEnded] = []
    last: dict[tuple[int, str], TaskEnded] = {}
    for archived, exit_record in folder.archived_ends(set(numbers)):
        key, ago = archived.task.key, seconds_ago(exit_record)
        end = msgspec.structs.replace(archived, ago=ago, sent=since_boot())
        if end.outcome is Outcome.FINISHED:
            finished.append(end)
        else:
            last[key.number, key.job] = end
    return (*finished, *last.values())
