"""Knowledge of the jobs in the system beside their columns."""

from collections.abc import Callable, Container, Iterator, Mapping

import numpy as np

from volvelle.core.parts import KnownJob
from volvelle.core.state import JOBS, VERSION, State
from volvelle.core.view import rows_by_submission


class KnownJobs(Mapping[int, KnownJob]):
    """Knowledge of the jobs in the system beside their columns, by number."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._jobs: dict[int, KnownJob] = {}
        self._source: Callable[[int], KnownJob] | None = None
        self._rows: dict[int, int] = {}
        self._version = -1

    def of(self, state: State) -> "KnownJobs":
        """The same for a copy of the state."""
        copy = KnownJobs(state)
        copy._jobs, copy._source = self._jobs.copy(), self._source
        return copy

    def ask(self, source: Callable[[int], KnownJob], numbers: Container[int]) -> None:
        """Let ``source`` say what is known of jobs of these numbers that are not noted here."""
        before = self._source
        self._source = lambda number: (
            source(number) if before is None or number in numbers else before(number)
        )

    @property
    def rows(self) -> Mapping[int, int]:
        """The rows of the jobs in the system, by number."""
        s = self._state
        if self._version != s.count[VERSION]:
            self._version = int(s.count[VERSION])
            rows = rows_by_submission(s)
            if s.compiled:
                numbers = np.asarray(s.jobs.number)[rows].astype(np.int64)
                self._rows = dict(zip(numbers.tolist(), rows.tolist(), strict=True))
            else:
                self._rows = {int(s.jobs.number[row]): row for row in rows}
        return self._rows

    def entered(self, number: int, row: int, known: KnownJob) -> None:
        """A job has just entered the system."""
        self._jobs[number] = known
        self._rows[number] = row
        self._version += 1

    def left(self, number: int) -> None:
        """A job has just left the system."""
        self._jobs.pop(number, None)
        if self._rows.pop(number, None) is not None:
            self._version += 1

    def __setitem__(self, number: int, known: KnownJob) -> None:
        self._jobs[number] = known

    def __getitem__(self, number: int) -> KnownJob:
        known = self._jobs.get(number)
        if known is not None:
            return known
        if self._source is None or not self._is_here(number):
            raise KeyError(number)
        return self._source(number)

    def _is_here(self, number: int) -> bool:
        """Whether a job is in the system; rows are not told apart for it."""
        s = self._state
        if self._version == s.count[VERSION] or not s.compiled:
            return number in self.rows
        return bool((np.asarray(s.jobs.number)[rows_by_submission(s)] == number).any())

    def __contains__(self, number: object) -> bool:
        return number in self.rows

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows)

    def __len__(self) -> int:
        return int(self._state.count[JOBS])
