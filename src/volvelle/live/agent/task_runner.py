"""Runs one task on this node, from its order to its end."""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable

import msgspec

from volvelle.client.control_block import (
    ATTACHED,
    BATCH_SIZE,
    EXIT_AT,
    EXIT_CONFIRMED,
    ITERATIONS,
    REVOKED,
    SAVED_ITERATIONS,
    ControlBlock,
)
from volvelle.live.agent import processes, supervisor
from volvelle.live.agent.files import last_line
from volvelle.live.agent.folders import AttemptFolder, ExitRecord, StopRecord, SupervisorRecord
from volvelle.live.agent.processes import seconds_ago, since_boot
from volvelle.live.agent.progress import ProgressReader
from volvelle.live.agent.task_outcome import task_outcome
from volvelle.live.agent.wire import (
    ExitAt,
    ExitConfirmed,
    SignalTask,
    StartTask,
    TaskEnded,
    TaskStarted,
)
from volvelle.live.messages import Outcome

_START_POLL_SECONDS = 0.01
_EXIT_POLL_SECONDS = 0.005
"""Polling interval of the control block of a job that may choose its last iteration."""


Send = Callable[[TaskStarted | TaskEnded | SignalTask | ExitAt | ExitConfirmed], None]


class TaskRunner:
    """Starts, or takes over, the task prepared in ``folder``. `run` lasts until its end.

    node_problem: why the node can start nothing now. reported: the latest state sent to the server.
    signal_request, exit_request: to be sent again on a new connection.
    """

    def __init__(
        self, folder: AttemptFolder, send: Send, node_problem: Callable[[], str] = lambda: ""
    ) -> None:
        """Raises OSError, ValueError if ``folder`` was not prepared completely."""
        self._node_problem = node_problem
        if not folder.command.exists():
            raise FileNotFoundError(folder.command)
        self.order: StartTask = folder.order
        self.task = self.order.task
        self.reported: TaskStarted | TaskEnded | None = None
        self.signal_request: SignalTask | None = None
        self.exit_request: ExitAt | None = None
        self._folder, self._send = folder, send
        self._block = ControlBlock(folder.control_block)
        self._progress = ProgressReader(self.task, folder, self._block)
        self._started = asyncio.Event()
        self._stop = folder.stop
        self._stopping: asyncio.Task[None] | None = None
        self._signalled = False
        self._exit = ExitRecord()

    @property
    def state(self) -> TaskStarted | TaskEnded:
        """The state to report in an inventory: as last reported, else that the task is here."""
        if isinstance(self.reported, TaskEnded):
            ago = seconds_ago(self._exit)
            return msgspec.structs.replace(self.reported, ago=ago, sent=since_boot())
        return self.reported or TaskStarted(self.task, self.order.port)

    @property
    def running(self) -> bool:
        """Whether its end has not been seen."""
        return not isinstance(self.reported, TaskEnded)

    @property
    def progress(self) -> ProgressReader | None:
        """Progress, reported by the leading node while the task runs."""
        leads = self.task.rank == 0 and isinstance(self.reported, TaskStarted)
        return self._progress if leads else None

    # ------------------------------------------------------------------ from start to end

    async def run(self) -> None:
        """Run the task to its end, and report its start and its end."""
        if self._stop is not None:
            self._schedule_stop()
        try:
            ended = await self._run()
        except OSError as error:
            ended = await self._conclude(ExitRecord(error=f"its agent could not go on: {error}"))
        if self._stopping is not None:
            self._stopping.cancel()
        with contextlib.suppress(OSError):  # written when it is archived
            self._folder.end = ended
        self._report(ended)

    async def _run(self) -> TaskEnded:
        new = self._folder.exit is None and self._folder.supervisor is None
        child = self._start_supervisor() if new else None
        record = await self._wait_for_start(child)
        if record is not None and record.leader:
            self._started.set()
            self._report(TaskStarted(self.task, self.order.port))
            await self._wait_for_supervisor(record)
        if child is not None:
            await processes.wait_for_exit(child.pid)
            child.wait()
        ended = await self._conclude(self._folder.exit)
        never_ran = not self._started.is_set() and ended.exit_code is None
        if never_ran and ended.outcome is Outcome.FAILED and self._node_problem():
            return msgspec.structs.replace(ended, node_failed=True)
        return ended

    def _start_supervisor(self) -> subprocess.Popen[bytes]:
        with self._folder.supervisor_log.open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, str(self._folder.path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={},
                start_new_session=True,
            )

    async def _wait_for_start(
        self, child: subprocess.Popen[bytes] | None
    ) -> SupervisorRecord | None:
        """The supervisor's record, once the command runs or the supervisor has ended."""
        while True:
            ended = self._folder.exit is not None
            record = self._folder.supervisor
            if ended or (record is not None and record.leader):
                return record
            if child is None or child.poll() is not None:
                with self._folder.locked() as free:
                    if free:
                        return record
            await asyncio.sleep(_START_POLL_SECONDS)

    async def _wait_for_supervisor(self, record: SupervisorRecord) -> None:
        while True:
            with self._folder.locked() as free:
                if free:
                    return
            await processes.wait_for_exit(record.supervisor)
            await asyncio.sleep(_START_POLL_SECONDS)  # its guard kills what it left

    async def _conclude(self, exit_record: ExitRecord | None) -> TaskEnded:
        """The end of the task. Processes that the supervisor did not kill are killed here."""
        if exit_record is None or exit_record.error:
            record = self._folder.supervisor
            with self._folder.locked():
                await processes.kill_remaining(self._folder.path, record)
                if exit_record is None:
                    exit_record = self._unsupervised_exit(record)
                    with contextlib.suppress(OSError):
                        self._folder.exit = exit_record
        launch, output = self.order.start.launch, last_line(self._folder.output)
        self._exit = exit_record
        outcome, reason = task_outcome(
            exit_record, self._stop, self._block, launch, output, done=self._folder.is_done
        )
        return TaskEnded(
            task=self.task,
            outcome=outcome,
            exit_code=exit_record.code,
            reason=reason,
            permanent=exit_record.output_full
            or (bool(exit_record.setup) and exit_record.code is not None),
            iterations=self._block[ITERATIONS],
            saved_iterations=self._block[SAVED_ITERATIONS],
            ago=seconds_ago(exit_record),
            sent=since_boot(),
        )

    def _unsupervised_exit(self, record: SupervisorRecord | None) -> ExitRecord:
        if record is None:
            error = self._folder.supervisor_error
            return ExitRecord(
                error="its supervisor could not start" + (f": {error}" if error else "")
            )
        rebooted = record.boot != processes.boot_id()
        return ExitRecord(error="its supervisor was killed", rebooted=rebooted)

    def _report(self, state: TaskStarted | TaskEnded) -> None:
        self.reported = state
        self._send(state)

    # ------------------------------------------------------------------ stopping

    def stop(self, *, kill: bool, reason: str = "") -> None:
        """Revoke the lease; with ``kill``, kill the task at once. A repeat changes nothing."""
        before = self._stop
        if not self.running or (before is not None and before.kill >= kill):
            return
        self._record_stop(
            StopRecord(at=since_boot(), kill=True, reason=reason or before.reason)
            if before is not None
            else StopRecord(at=since_boot(), kill=kill, reason=reason)
        )
        self._schedule_stop(signalling=not kill)

    def _record_stop(self, stop: StopRecord) -> None:
        self._stop = stop
        with contextlib.suppress(OSError):  # a later agent receives the order again
            self._folder.stop = stop

    def _schedule_stop(self, *, signalling: bool = False) -> None:
        if self._stopping is not None:
            self._stopping.cancel()
        self._stopping = asyncio.create_task(self._carry_out_stop(signalling))

    async def _carry_out_stop(self, signalling: bool) -> None:
        """Stop by the control block or by a signal; after the grace period, kill."""
        stop, launch = self._stop, self.order.start.launch
        assert stop is not None
        await self._started.wait()
        record = self._folder.supervisor
        assert record is not None
        if not stop.kill:
            if self.task.rank == 0:
                self._block[REVOKED] = 1
                if signalling and launch.stop_signal is not None and not self._block[ATTACHED]:
                    self.send_stop_signal()
                    self.signal_request = SignalTask(*self.task.key)
                    self._send(self.signal_request)
            await self._wait_for_grace(stop.at + launch.grace_seconds)
            self._record_stop(msgspec.structs.replace(stop, forced=True))
        processes.send_signal(record, signal.SIGKILL)

    async def _wait_for_grace(self, until: float) -> None:
        """Wait; if the leading rank chooses its last iteration meanwhile, have the others informed."""
        while since_boot() < until:
            chosen = self._block[EXIT_AT] if self.task.rank == 0 else 0
            if chosen and self.exit_request is None:
                self.exit_request = ExitAt(*self.task.key, iteration=chosen)
                if len(self.task.nodes) == 1:
                    self.confirm_exit(chosen)
                else:
                    self._send(self.exit_request)
            await asyncio.sleep(_EXIT_POLL_SECONDS)

    def send_stop_signal(self) -> None:
        """Send the job its stop signal, once: a second one may end it before it has saved."""
        record, name = self._folder.supervisor, self.order.start.launch.stop_signal
        if record is not None and name is not None and not self._signalled:
            self._signalled = True
            processes.send_signal(record, signal.Signals[name])

    def exit_at(self, iteration: int) -> None:
        """The leading rank has chosen the last iteration."""
        self._block[EXIT_AT] = iteration
        self._send(ExitConfirmed(*self.task.key, iteration=iteration))

    def set_batch_size(self, batch_size: int) -> None:
        """The scheduler wants another batch size."""
        self._block[BATCH_SIZE] = batch_size

    def confirm_exit(self, iteration: int) -> None:
        """The control blocks of all other nodes hold the last iteration."""
        self._block[EXIT_CONFIRMED] = iteration
