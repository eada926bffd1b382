"""One attempt on this node, from its order to its end."""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable

import msgspec

from volvelle.client.control_block import (
    ATTACHED,
    EXIT_AT,
    EXIT_CONFIRMED,
    ITERATIONS,
    REVOKED,
    SAVED_ITERATIONS,
    ControlBlock,
)
from volvelle.live.agent import processes, supervisor
from volvelle.live.agent.folders import AttemptFolder, Exit, KeptBy, StopAsked, last_line
from volvelle.live.agent.processes import since_boot
from volvelle.live.agent.progress import Progress
from volvelle.live.agent.task_outcome import verdict
from volvelle.live.agent.wire import Began, Ended, ExitAt, ExitTold, Run, Signal

_BEGINNING_SECONDS = 0.01
_PAGE_SECONDS = 0.005
"""How often a page is read by which a job may be about to end."""

Say = Callable[[Began | Ended | Signal | ExitAt | ExitTold], None]


class Attempt:
    """Begins or takes over what is prepared in ``folder``; `live` sees it to its end."""

    def __init__(self, folder: AttemptFolder, say: Say) -> None:
        """Raises OSError, ValueError where ``folder`` was never prepared to the end."""
        if not folder.command.exists():
            raise FileNotFoundError(folder.command)
        self.run: Run = folder.order
        self.part = self.run.part
        self.told: Began | Ended | None = None
        self._folder, self._say = folder, say
        self._block = ControlBlock(folder.block)
        self._progress = Progress(self.part, folder, self._block)
        self._began = asyncio.Event()
        self._stop = folder.stop
        self._stopping: asyncio.Task[None] | None = None
        self._signalled = False
        self.signal_asked: Signal | None = None
        self.exit_asked: ExitAt | None = None

    @property
    def begins(self) -> Began:
        """That it is here, and may run."""
        return Began(self.part, self.run.port)

    @property
    def runs(self) -> bool:
        """Whether its end has not been seen."""
        return not isinstance(self.told, Ended)

    async def live(self) -> None:
        """See the attempt to its end, telling its beginning and its end."""
        if self._stop is not None:
            self._enforce()
        try:
            ended = await self._live()
        except OSError as error:
            ended = await self._concluded(Exit(error=f"its agent could not go on: {error}"))
        if self._stopping is not None:
            self._stopping.cancel()
        self._tell(ended)

    async def _live(self) -> Ended:
        new = self._folder.exit is None and self._folder.kept_by is None
        child = self._start_keeper() if new else None
        kept = await self._beginning(child)
        if kept is not None and kept.leader:
            self._began.set()
            self._tell(self.begins)
            await self._keeper_gone(kept)
        if child is not None:
            await processes.gone(child.pid)
            child.wait()
        return await self._concluded(self._folder.exit)

    def _start_keeper(self) -> subprocess.Popen[bytes]:
        with (self._folder.path / "keeper.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, str(self._folder.path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env={},
                start_new_session=True,
            )

    async def _beginning(self, child: subprocess.Popen[bytes] | None) -> KeptBy | None:
        """Who keeps it, once the command runs or the keeper is gone."""
        while True:
            over = self._folder.exit is not None
            kept = self._folder.kept_by
            if over or (kept is not None and kept.leader):
                return kept
            if child is None or child.poll() is not None:
                with self._folder.alone() as free:
                    if free:
                        return kept
            await asyncio.sleep(_BEGINNING_SECONDS)

    async def _keeper_gone(self, kept: KeptBy) -> None:
        while True:
            with self._folder.alone() as free:
                if free:
                    return
            await processes.gone(kept.keeper)

    async def _concluded(self, end: Exit | None) -> Ended:
        """The end, after which no process is left: where the keeper did not see to that, we do."""
        if end is None or end.error:
            kept = self._folder.kept_by
            with self._folder.alone():
                await processes.sweep(self._folder.path, kept)
                if end is None:
                    end = self._unkept(kept)
                    with contextlib.suppress(OSError):
                        self._folder.exit = end
        outcome, reason = verdict(
            end, self._stop, self._block, self.run.start.launch, last_line(self._folder.output)
        )
        return Ended(
            part=self.part,
            outcome=outcome,
            exit_code=end.code,
            reason=reason,
            iterations=self._block[ITERATIONS],
            saved_iterations=self._block[SAVED_ITERATIONS],
        )

    def _unkept(self, kept: KeptBy | None) -> Exit:
        if kept is None:
            said = self._folder.complaint
            return Exit(error="its keeper could not begin" + (f": {said}" if said else ""))
        return Exit(error="its keeper was killed", rebooted=kept.boot != processes.boot())

    def _tell(self, what: Began | Ended) -> None:
        self.told = what
        self._say(what)

    def stop(self, *, kill: bool, because: str = "") -> None:
        """Revoke its lease; where ``kill``, end it at once. A repeat changes nothing."""
        before = self._stop
        if not self.runs or (before is not None and before.kill >= kill):
            return
        self._remember(
            StopAsked(at=since_boot(), kill=True, because=because or before.because)
            if before is not None
            else StopAsked(at=since_boot(), kill=kill, because=because)
        )
        self._enforce(signalling=not kill)

    def _remember(self, asked: StopAsked) -> None:
        self._stop = asked
        with contextlib.suppress(OSError):  # an agent that comes after us is told again
            self._folder.stop = asked

    def _enforce(self, *, signalling: bool = False) -> None:
        if self._stopping is not None:
            self._stopping.cancel()
        self._stopping = asyncio.create_task(self._end(signalling))

    async def _end(self, signalling: bool) -> None:
        """Have it end: by its page or by a signal, and after its grace by force."""
        asked, launch = self._stop, self.run.start.launch
        assert asked is not None
        await self._began.wait()
        kept = self._folder.kept_by
        assert kept is not None
        if not asked.kill:
            if self.part.rank == 0:
                self._block[REVOKED] = 1
                if signalling and launch.stop_signal is not None and not self._block[ATTACHED]:
                    self.signal()
                    self.signal_asked = Signal(*self.part.key)
                    self._say(self.signal_asked)
            await self._grace(asked.at + launch.grace_seconds)
            self._remember(msgspec.structs.replace(asked, forced=True))
        processes.send_signal(kept, signal.SIGKILL)

    async def _grace(self, until: float) -> None:
        """Wait; where the leading rank chooses its last iteration meanwhile, have the others told."""
        while since_boot() < until:
            chosen = self._block[EXIT_AT] if self.part.rank == 0 else 0
            if chosen and self.exit_asked is None:
                self.exit_asked = ExitAt(*self.part.key, chosen)
                if len(self.part.nodes) == 1:
                    self.exit_told(chosen)
                else:
                    self._say(self.exit_asked)
            await asyncio.sleep(_PAGE_SECONDS)

    def signal(self) -> None:
        """Tell the job by its signal that it is to stop; once, as a second may end it before it has saved."""
        kept, name = self._folder.kept_by, self.run.start.launch.stop_signal
        if kept is not None and name is not None and not self._signalled:
            self._signalled = True
            processes.send_signal(kept, signal.Signals[name])

    def exit_at(self, iteration: int) -> None:
        """The leading rank has chosen the last iteration."""
        self._block[EXIT_AT] = iteration
        self._say(ExitTold(*self.part.key, iteration))

    def exit_told(self, iteration: int) -> None:
        """The last iteration stands on the pages of all other nodes."""
        self._block[EXIT_CONFIRMED] = iteration

    def progress(self) -> Progress | None:
        """Where it tells how far it is: on the leading node, while it runs."""
        return self._progress if self.part.rank == 0 and isinstance(self.told, Began) else None
