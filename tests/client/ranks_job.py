"""A job of several ranks for tests: processes that wait at a barrier, as in an all-reduce."""

import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier


@dataclass(frozen=True)
class RanksJob:
    """A job of several ranks: on nodes with the folders ``runs``, ``barrier_every``: iterations."""

    runs: tuple[Path, ...]
    ranks_per_node: int
    checkpoint: Path
    barrier_every: int = 1
    on_all_ranks: bool = False
    every: str | int | None = None
    iterations: int = 2000
    seconds: float = 0.004  # at most, of an iteration

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return len(self.runs) * self.ranks_per_node

    def seen(self, rank: int) -> Path:
        """The file to which ``rank`` writes, over all attempts."""
        return self.checkpoint.with_name(f"seen-{rank}")


def run_rank(rank: int, job: RanksJob, barrier: Barrier) -> None:
    """Run one rank, in its process."""
    os.environ |= {
        "VOLVELLE_RUN": str(job.runs[rank // job.ranks_per_node]),
        "VOLVELLE_NODES": str(len(job.runs)),
        "VOLVELLE_CHECKPOINT": str(job.checkpoint),
        "RANK": str(rank),
        "WORLD_SIZE": str(job.ranks),
    }
    import volvelle.client as vc

    def load(folder: Path) -> list[int]:
        part = folder / f"part-{rank if job.on_all_ranks else 0}"
        return [int(line) for line in part.read_text().splitlines()]

    def save(folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        (folder / f"part-{rank}").write_text("".join(f"{number}\n" for number in state))

    nothing: list[int] = []
    state = vc.restore(nothing, load)
    barrier.wait()
    random_state = random.Random(rank)
    loop = vc.iterate(
        range(job.iterations),
        save=save,
        every=job.every,
        accumulate=job.barrier_every,
        save_on_all_ranks=job.on_all_ranks,
    )
    with job.seen(rank).open("a") as seen:
        for number in loop:
            state.append(number)
            seen.write(f"{number}\n")
            seen.flush()
            time.sleep(random_state.uniform(0.0, job.seconds))
            if (number + 1) % job.barrier_every == 0:
                barrier.wait()
    assert vc.preempted() or len(state) == job.iterations
