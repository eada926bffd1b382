"""Told starts in AdminComment: seldom, when they changed, beside nobody's comment, and removed again."""

from itertools import pairwise
from pathlib import Path

from slurm_runs import RecordedSlurm

from volvelle.incumbents.attach.session import Session
from volvelle.incumbents.slurm.attach import incumbent
from volvelle.incumbents.slurm.publish import EVERY, PREFIX, Publisher


class CommentedSlurm(RecordedSlurm):
    """A recorded run whose answers show the comments that were written since."""

    def __init__(self, run: Path) -> None:
        super().__init__(run)
        self.comments: dict[str, str] = {}
        self.written: list[tuple[float, str, str]] = []

    def comment(self, key: str, text: str) -> None:
        """Keep a comment, or remove it."""
        self.written.append((self.time, key, text))
        self.comments[key] = text
        if not text:
            del self.comments[key]

    def poll(self) -> dict[str, str]:
        """The answers of the next snapshot, with comments."""
        answers = super().poll()
        lines = answers["job"].splitlines(keepends=True)
        for at, line in enumerate(lines):
            number = line.removeprefix("JobId=").partition(" ")[0]
            if number in self.comments:
                lines[at] = f"{line.rstrip()} AdminComment={self.comments[number]}\n"
        return answers | {"job": "".join(lines)}


def test_starts_are_told_in_comments_that_are_removed(shared: Path, tmp_path: Path) -> None:
    slurm = CommentedSlurm(shared / "golden" / "slurm" / "run5")
    publisher = Publisher(slurm)
    session = Session(slurm, tmp_path, incumbent(), publisher=publisher, clock=lambda: slurm.time)
    for _ in range(8):
        session.step()
    assert session.follower is not None
    pending = next(job for job in session.follower.snapshot.jobs if job.pending)
    slurm.comments = {}
    slurm.comment(pending.key, "ask ada")  # an operator's, of a job that has none of ours any more
    slurm.written.clear()
    publisher = session._publisher = Publisher(slurm)
    for _ in range(40):
        session.step()
    told = [one for one in slurm.written if one[2]]
    assert told
    assert all(text.startswith(f"{PREFIX}starts 2") for _, _, text in told)
    rounds = sorted({time for time, _, _ in slurm.written})
    assert all(later - before >= EVERY for before, later in pairwise(rounds))
    assert pending.key not in {key for _, key, _ in slurm.written}
    gone = {key for _, key, text in slurm.written if not text}
    assert gone, "of a job that has started"
    session.close()
    assert slurm.comments == {pending.key: "ask ada"}


def test_what_a_killed_attach_left_is_found(shared: Path, tmp_path: Path) -> None:
    slurm = CommentedSlurm(shared / "golden" / "slurm" / "run5")
    first = Session(
        slurm, tmp_path / "first", incumbent(), publisher=Publisher(slurm), clock=lambda: slurm.time
    )
    for _ in range(40):
        first.step()
    left = dict(slurm.comments)
    again = Session(
        slurm, tmp_path / "again", incumbent(), publisher=Publisher(slurm), clock=lambda: slurm.time
    )
    again.step()
    assert left
    again.close()
    assert not slurm.comments
