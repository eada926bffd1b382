"""The agent: all attempts of a node, and what is said about them."""

import asyncio
import contextlib
import time
from collections.abc import Callable

import msgspec

from volvelle.live.agent import logs, wire
from volvelle.live.agent.central_renewal import Renewals
from volvelle.live.agent.controller_connection import Link, RefusedError
from volvelle.live.agent.folders import AgentFolder, Settings, lock
from volvelle.live.agent.launch import free_port, prepare
from volvelle.live.agent.node_lease import Lease
from volvelle.live.agent.processes import sweep
from volvelle.live.agent.task_runner import Attempt
from volvelle.live.agent.wire import Ended, Key
from volvelle.live.messages import Forget, Outcome, Stop

_REPEAT_SECONDS = 5.0
_PRUNE_SECONDS = 3600.0


class Agent:
    """Works in ``folder`` for the node of ``settings``."""

    def __init__(
        self, folder: AgentFolder, settings: Settings, complain: Callable[[str], None]
    ) -> None:
        self._folder, self._settings = folder, settings
        self._attempts: dict[Key, Attempt] = {}
        self._unable: dict[Key, Ended] = {}
        """Ends of what could not even be prepared, and so has no folder."""
        self._newest = folder.newest()
        self._link = Link(settings, folder.identity, self._joined, self._heard, complain)
        self._lives: asyncio.TaskGroup
        self._lease = Lease(folder.lease)
        self._renewals = Renewals(folder.path, self._link.say)

    async def work(self) -> None:
        """Take over what runs, then serve until it is no longer wanted. Raises `RefusedError`."""
        async with asyncio.TaskGroup() as self._lives:
            for key in self._folder.alive():
                try:
                    self._live(key)
                except (OSError, ValueError, msgspec.MsgspecError):
                    await self._give_up(key)
            duties = [self._link.keep(), self._tell(), self._prune()]
            if self._settings.central:
                duties.append(self._renewals.serve())
            tasks = [self._lives.create_task(duty) for duty in duties]
            await self._unwanted()
            for task in tasks:
                task.cancel()

    def _live(self, key: Key) -> None:
        attempt = self._attempts[key] = Attempt(self._folder.attempt(key), self._link.say)
        self._lives.create_task(attempt.live())

    async def _give_up(self, key: Key) -> None:
        """Nothing can be read of this attempt; mostly it was never prepared to the end."""
        folder = self._folder.attempt(key)
        await sweep(folder.path, folder.kept_by)
        self._folder.discard(key)

    # ------------------------------------------------------------------ what it hears

    def _joined(self, welcome: wire.Welcome) -> None:
        self._lease.seconds = welcome.lease_seconds
        parts = [attempt.told or attempt.begins for attempt in self._attempts.values()]
        self._link.say(wire.Here((*parts, *self._unable.values())))
        for attempt in self._attempts.values():
            for asked in (attempt.signal_asked, attempt.exit_asked):
                if asked is not None:
                    self._link.say(asked)
        self._renewals.ask_again()

    def _heard(self, message: wire.ToAgent) -> None:
        match message:
            case wire.Run():
                self._run(message)
            case Stop(number, attempt, kill):
                if known := self._attempts.get((number, attempt)):
                    known.stop(kill=kill)
            case Forget(number, attempt):
                self._forget((number, attempt))
            case wire.Signal(number, attempt):
                if known := self._attempts.get((number, attempt)):
                    known.signal()
            case wire.ExitAt(number, attempt, iteration):
                if known := self._attempts.get((number, attempt)):
                    known.exit_at(iteration)
            case wire.ExitTold(number, attempt, iteration):
                if known := self._attempts.get((number, attempt)):
                    known.exit_told(iteration)
            case wire.Renewed():
                self._renewals.answered(message)
            case wire.ListLogs() | wire.ReadLog():
                self._lives.create_task(self._read(message))
            case wire.Pong(at):
                self._lease.renew(at)

    def _run(self, run: wire.Run) -> None:
        part = run.part
        if known := self._attempts.get(part.key):
            if known.told is not None:
                self._link.say(known.told)
            return
        if self._newest.get(part.number, 0) >= part.attempt:
            self._cannot(part, Outcome.LOST, "it, or a later one, has been here before")
            return
        try:
            self._newest[part.number] = part.attempt
            run = run if run.port else msgspec.structs.replace(run, port=free_port())
            prepare(run, self._folder, self._settings, self._lease.file)
            self._live(part.key)
        except OSError as error:
            self._folder.discard(part.key)
            self._cannot(part, Outcome.FAILED, f"could not begin: {error}")

    def _cannot(self, part: wire.Part, outcome: Outcome, reason: str) -> None:
        ended = self._unable[part.key] = Ended(part=part, outcome=outcome, reason=reason)
        self._link.say(ended)

    def _forget(self, key: Key) -> None:
        self._unable.pop(key, None)
        if (known := self._attempts.get(key)) and not known.runs:
            del self._attempts[key]
            with contextlib.suppress(OSError):  # then it is told again, and forgotten again
                self._folder.put_aside(key)

    async def _read(self, question: wire.ListLogs | wire.ReadLog) -> None:
        """Say what jobs wrote; a slow disk holds nothing else up."""
        folder = self._folder.path
        if isinstance(question, wire.ListLogs):
            sizes = await asyncio.to_thread(logs.sizes, folder, question.number)
            self._link.say(wire.LogSizes(question.ticket, sizes))
            return
        place = question.number, question.attempt, question.offset, question.most_bytes
        content = await asyncio.to_thread(logs.piece, folder, *place)
        self._link.say(wire.LogPiece(question.ticket, content))

    # ------------------------------------------------------------------ what it does by itself

    async def _tell(self) -> None:
        """Progress now and then; ends again and again, until they are forgotten."""
        repeat_at = time.monotonic() + _REPEAT_SECONDS
        while True:
            await asyncio.sleep(self._settings.progress_seconds)
            if not self._link.up:
                continue
            for attempt in self._attempts.values():
                if (progress := attempt.progress()) and (news := progress.news()):
                    self._link.say(news)
            if time.monotonic() < repeat_at:
                continue
            repeat_at = time.monotonic() + _REPEAT_SECONDS
            ends = [a.told for a in self._attempts.values() if isinstance(a.told, Ended)]
            for ended in (*ends, *self._unable.values()):
                self._link.say(ended)

    async def _prune(self) -> None:
        """Away with what was kept for long enough, now and then."""
        keep = self._settings.keep_seconds
        while True:
            with contextlib.suppress(OSError):  # tried again
                await asyncio.to_thread(self._folder.prune, time.time() - keep)
            await asyncio.sleep(min(_PRUNE_SECONDS, keep))

    async def _unwanted(self) -> None:
        """Mind the lease; return when there has been neither a job nor a controller for long."""
        idle_since = time.monotonic()
        linger = self._settings.linger_seconds
        while linger is None or time.monotonic() - idle_since < linger:
            running = [attempt for attempt in self._attempts.values() if attempt.runs]
            if running or self._link.up:
                idle_since = time.monotonic()
            for attempt in running:
                if self._lease.ends_within(attempt.run.start.launch.grace_seconds):
                    attempt.stop(kill=False, because=self._lease.reason)
            await asyncio.sleep(0.2)


async def work(
    folder: AgentFolder, settings: Settings, complain: Callable[[str], None] = lambda trouble: None
) -> bool:
    """Be the agent in ``folder`` until it is unwanted; False at once where there is one already.

    complain: is told, for people, why there is no connection to the controller.
    Raises `RefusedError`.
    """
    with lock(folder.path / "lock") as free:
        try:
            if free:
                await Agent(folder, settings, complain).work()
        except* RefusedError as refusals:
            raise refusals.exceptions[0] from None
        return free
