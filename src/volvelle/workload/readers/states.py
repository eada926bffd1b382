"""States of jobs in a table of one's own, ``FAILED`` or ``Abgebrochen``, and the jobs chosen by them.

Jobs that wait or run have no known length, and are left out, as those of Slurm's accounting.
"""

from collections.abc import Sequence

from volvelle.model.problems import Problem, nearest
from volvelle.workload.readers.columns import Columns
from volvelle.workload.readers.ledger import Unfit
from volvelle.workload.readers.words import STATES, joined, words_of

_NOT_ENDED = {"running": "still running", "waiting": "never ran"}


def state_of(text: str) -> str:
    """Our word for the state where ``text`` or its first word is known; else ``text`` in lower case."""
    words = words_of(text)
    return STATES.get(joined(words)) or STATES.get("".join(words[:1])) or text.lower()


def states_of(columns: Columns) -> Sequence[str]:
    """The state in each row, "" where the table has none."""
    return columns.optional("state", state_of, "")


def _without_start(columns: Columns) -> list[bool]:
    """Whether each row has neither a start nor another length of the job."""
    if "start_time" not in columns.header:
        return [False] * len(columns)
    absent = map(columns.absent, ("start_time", "duration", "work"))
    return [all(row) for row in zip(*absent, strict=True)]


class ChosenStates:
    """The states whose jobs are wanted, as in ``completed+failed``; all for an empty text."""

    def __init__(self, written: str) -> None:
        self._written = [one.strip() for one in written.split("+") if one.strip()]
        self._wanted = {state_of(one) for one in self._written}
        self._seen: set[str] = set()

    def note(self, columns: Columns) -> None:
        """Note the rows that are not wanted, and those whose jobs have not ended."""
        states = states_of(columns)
        self._seen.update(states)
        never = _without_start(columns) if "cancelled" in states else ()
        for row, state in enumerate(states):
            if self._wanted and state not in self._wanted:
                columns.note(row, Unfit(f"not chosen: {state or 'no state'}", "state", state))
            elif state in _NOT_ENDED:
                columns.note(row, Unfit(_NOT_ENDED[state], "state", state))
            elif state == "cancelled" and never[row]:
                columns.note(row, Unfit("cancelled before they started", "state", state))

    def check(self, file: str) -> None:
        """Raise `Problem` where no row is in one of the chosen states."""
        known = sorted(filter(None, self._seen))
        for written in self._written:
            if state_of(written) not in known:
                raise Problem(
                    f"{file}: no row is in state {written!r}{nearest(written, known)}",
                    mend=f"its states are {', '.join(known)}",
                )
