"""A job that writes down itself when and where it runs, so that nobody else has to be believed.

python traced_job.py TRACES ITERATIONS SECONDS SAVE_EVERY

Each of its processes (one on each node) has a file of its own in TRACES, which is not on the disk that is
filled, and holds a lock for each of its GPUs and for its rank as long as it lives: the kernel lets go of
them at its end and not before. Ranks meet in every iteration, as those of a real training do.
"""

import fcntl
import json
import os
import socket
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

import volvelle.client as vc

_PEER_SECONDS = 30.0


def proc_started() -> float:
    """When this process was forked, in seconds since boot."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


class Trace:
    """What this process says of itself, a line at a time, at once."""

    def __init__(self, folder: Path) -> None:
        environ = os.environ
        self.job, self.rank = environ["VOLVELLE_JOB"], environ["VOLVELLE_NODE_RANK"]
        self.attempt, self._folder = int(environ["VOLVELLE_ATTEMPT"]), folder
        name = f"{self.job}-{self.attempt}-{self.rank}-{os.getpid()}.jsonl"
        self._file = (folder / name).open("a", encoding="utf-8")
        node = environ["VOLVELLE_NODE"]
        self.gpus = [f"{node}.{gpu}" for gpu in environ["VOLVELLE_GPUS"].split(",") if gpu]
        self._held = [
            self._hold(f"gpu-{gpu}" for gpu in self.gpus),
            self._hold([f"job-{self.job}-rank-{self.rank}"]),
        ]

    def _hold(self, names: Iterable[str]) -> Sequence[IO[bytes]]:
        """Locks until our end. Where another process lives that has one, that is written down."""
        files = []
        for name in names:
            file = (self._folder / f"{name}.lock").open("wb")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.say(collision=name)
            files.append(file)
        return files

    def say(self, **what: object) -> None:
        """Add a line."""
        line = what | {"at": time.clock_gettime(time.CLOCK_BOOTTIME), "wall": time.time()}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


class Ranks:
    """All processes of the job, which wait for each other."""

    def __init__(self) -> None:
        environ = os.environ
        rank, ranks = int(environ["VOLVELLE_NODE_RANK"]), int(environ["VOLVELLE_NODES"])
        at = environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
        self._peers: list[socket.socket] = []
        self._leads = rank == 0
        if self._leads and ranks > 1:
            with socket.create_server(("", at[1])) as server:
                server.settimeout(_PEER_SECONDS)
                self._peers = [server.accept()[0] for _ in range(ranks - 1)]
        elif ranks > 1:
            self._peers = [self._dial(at)]
        for peer in self._peers:
            peer.settimeout(_PEER_SECONDS)

    @staticmethod
    def _dial(at: tuple[str, int]) -> socket.socket:
        until = time.monotonic() + _PEER_SECONDS
        while True:
            try:
                return socket.create_connection(at, timeout=_PEER_SECONDS)
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def meet(self) -> None:
        """Return when all are here. Raises OSError where one is gone."""
        if not self._leads:
            for peer in self._peers:
                peer.sendall(b".")
        for peer in self._peers:
            if not peer.recv(1):
                raise ConnectionError("a rank is gone")
        if self._leads:
            for peer in self._peers:
                peer.sendall(b".")


def main(folder: Path, iterations: int, seconds: float, every: int) -> None:
    trace = Trace(folder)
    state = vc.restore(default=vc.State(history=[]))
    done = len(state.history)
    trace.say(began=proc_started(), gpus=trace.gpus, restored=done, total=iterations, every=every)

    def refused(message: Warning | str, category: type, *rest: object, **named: object) -> None:
        if category is RuntimeWarning:
            trace.say(unsaved=done, why=str(message))

    warnings.simplefilter("always", RuntimeWarning)
    warnings.showwarning = refused
    ranks = Ranks()

    def rest() -> Iterator[int]:
        """What is to be done, on every rank: the client takes it that ranks share the samples of an epoch."""
        yield from range(vc.progress().batch)  # which it passes over
        while done < iterations:
            yield done

    for _ in vc.iterate(rest(), epochs=1, total=iterations, save=state.save, every=every):
        ranks.meet()
        time.sleep(seconds)
        done += 1
        state.history.append([done, trace.attempt])
        trace.say(iteration=done)
    trace.say(history=state.history)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
