"""Journals written and replayed."""

from pathlib import Path
from tempfile import TemporaryDirectory

from volvelle.core.journal import read_journal, replay
from volvelle.testing.scenario import Run, state_of


def check_replay(run: Run) -> None:
    """The journal of ``run``, written and read, rebuilds the state in which the run ended."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        run.journal.write(path)
        header, entries = read_journal(path)
        assert state_of(replay(header, entries)) == state_of(run.scheduler)
