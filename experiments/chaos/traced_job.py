"""A job that traces when and where it runs, as evidence that does not depend on the scheduler.

python traced_job.py TRACES ITERATIONS SECONDS SAVE_EVERY

Each of its processes (one on each node) has a file of its own in TRACES, which is not on the disk that is
filled, and holds a lock for each of its GPUs and for its rank as long as it lives: the kernel releases them
at its end and not before. So does a child of its own that has left its session and environment. Ranks wait
for each other in every iteration, as in a training.
"""

import fcntl
import json
import os
import socket
import subprocess
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
    """The trace of this process, written line by line."""

    def __init__(self, folder: Path) -> None:
        environ = os.environ
        self.job, self.rank = environ["VOLVELLE_JOB"], environ["VOLVELLE_NODE_RANK"]
        self.attempt, self._folder = int(environ["VOLVELLE_ATTEMPT"]), folder
        name = f"{self.job}-{self.attempt}-{self.rank}-{os.getpid()}.jsonl"
        self._file = (folder / name).open("a", encoding="utf-8")
        node = environ["VOLVELLE_NODE"]
        plugged = environ.get("NVIDIA_VISIBLE_DEVICES")  # of a container, where ours are from 0 on
        numbers = (plugged or environ["VOLVELLE_GPUS"]).split(",")
        self.gpus = [f"{node}.{gpu}" for gpu in numbers if gpu]
        self._held = [
            self._hold(f"gpu-{gpu}" for gpu in self.gpus),
            self._hold([f"job-{self.job}-rank-{self.rank}"]),
        ]
        # It keeps the locks, and neither its session nor its environment says of which job it is.
        held = [file.fileno() for files in self._held for file in files]
        subprocess.Popen(["sleep", "600"], env={}, start_new_session=True, pass_fds=held)

    def _hold(self, names: Iterable[str]) -> Sequence[IO[bytes]]:
        """Lock until the process ends; a lock held by another process is traced."""
        files = []
        for name in names:
            file = (self._folder / f"{name}.lock").open("wb")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.write(collision=name)
            files.append(file)
        return files

    def write(self, **what: object) -> None:
        """Add a line."""
        line = what | {"at": time.clock_gettime(time.CLOCK_BOOTTIME), "wall": time.time()}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


class Ranks:
    """The connections between all processes of the job."""

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
            self._peers = [self._connect(at)]
        for peer in self._peers:
            peer.settimeout(_PEER_SECONDS)

    @staticmethod
    def _connect(at: tuple[str, int]) -> socket.socket:
        until = time.monotonic() + _PEER_SECONDS
        while True:
            try:
                return socket.create_connection(at, timeout=_PEER_SECONDS)
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def barrier(self) -> None:
        """Return when all ranks are here. Raises OSError if one has ended."""
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
    run = Path(
        os.environ["VOLVELLE_RUN"]
    ).name  # numbers are given again by a store that was set back
    trace.write(
        began=proc_started(),
        run=run,
        gpus=trace.gpus,
        restored=done,
        total=iterations,
        every=every,
    )

    def refused(message: Warning | str, category: type, *rest: object, **named: object) -> None:
        if category is RuntimeWarning:
            trace.write(unsaved=done, why=str(message))

    warnings.simplefilter("always", RuntimeWarning)
    warnings.showwarning = refused
    ranks = Ranks()

    def rest() -> Iterator[int]:
        """All remaining iterations, on every rank: the client assumes ranks to share an epoch."""
        yield from range(vc.progress().batch)  # which it passes over
        while done < iterations:
            yield done

    for _ in vc.iterate(rest(), epochs=1, total=iterations, save=state.save, every=every):
        ranks.barrier()
        time.sleep(seconds)
        done += 1
        state.history.append([done, trace.attempt])
        trace.write(iteration=done)
    trace.write(history=state.history)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
