"""Guarantees to jobs: made by an admission or a policy, kept or revoked, never silently broken.

The last `Promise` to a job holds. One that is due while its job is still there is revoked by another, at that
moment (`volvelle.core.answers`). An admission's guarantee to a job that waits is due as soon as a start
would be too late; a policy says by itself when it can no longer hold a guarantee.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from volvelle.core.compiled import kernel
from volvelle.core.decision import Promise
from volvelle.core.log import Notes
from volvelle.core.state import INFINITY, MOMENTS, NOW, PROMISED, State
from volvelle.model.job import JobSpec
from volvelle.model.tolerances import SAME_END

ADAPTS_BY = 0.5
"""How much a broken guarantee adds to a margin that adapts."""
LATE = "it is not finished at the time that was guaranteed"
"""The reason of a revocation at that time. An end before it that is reported later disproves it."""
OVERRAN = "it takes longer than it said, and was stopped to keep another guarantee"
_NOTHING: Mapping[int, float] = {}
LATENESS = 1.0
"""Seconds by which a live world may see what happens later than it was foreseen, all in all: a guarantee
is later than the finish that is foreseen by so much at least."""
LEAST_SLACK = 0.05
"""Share by which a finish that is accepted later than all deadlines is guaranteed later than foreseen, at
least: one without slack is broken by the first second of delay."""


@dataclass
class Margin:
    """The share by which jobs may take longer than is believed of them and keep their guarantees.

    It adapts: each broken guarantee adds to it, each that is kept takes a little away (Gibbs and Candès,
    NeurIPS'21). In the long run that comes to half of ``broken``, which leaves room for guarantees that break
    before the margin is known. least: its first and lowest value. step: what a broken guarantee adds.
    """

    least: float
    broken: float
    step: float = ADAPTS_BY
    now: float = 0.0

    def __post_init__(self) -> None:
        self.now = max(self.now, self.least)

    def learn(self, *, kept: bool) -> None:
        """A guarantee was kept or broken."""
        error = float(not kept) - self.broken / 2.0
        self.now = max(self.now + self.step * error, self.least)


@kernel
def keeps(finish: float, finish_by: float) -> bool:
    """Whether a job that finishes at ``finish`` keeps a guarantee."""
    return finish <= finish_by + SAME_END


class Promises(dict[int, Promise]):
    """The last guarantees to jobs in the system, by number; a few that are through may be there too."""

    def __init__(self, state: State, given: Iterable[Promise] = ()) -> None:
        super().__init__({one.number: one for one in given})
        self._state = state

    def of(self, state: State) -> "Promises":
        """The same for a copy of the state."""
        return Promises(state, self.values())

    def give(self, given: Promise, notes: Notes) -> None:
        """Let this be what is guaranteed to a job in the system, or about to enter it, from now on."""
        before, clock = self.get(given.number), self._state.clock
        if before == given:
            return
        self[given.number] = given
        moment = int(self._state.count[MOMENTS])
        notes.promises[moment] = (*notes.promises.get(moment, ()), given)
        if before is not None and _due(before) == clock[PROMISED]:
            self.expect()
        else:
            clock[PROMISED] = min(float(clock[PROMISED]), _due(given))

    def expect(self, needed: Mapping[int, float] = _NOTHING, lead: float = 0.0) -> None:
        """Let the forward loop know when the next guarantee is due.

        needed: seconds that jobs which wait need at least; a guarantee to one is due so much earlier, and
        seen to ``lead`` seconds before that.
        """
        now = float(self._state.clock[NOW])
        due = [_due(given) - needed.get(number, 0.0) for number, given in self.items()]
        for number, seconds in needed.items():
            before = (self[number].finish_by or INFINITY) - seconds - lead
            due += [before] if before > now else []
        self._state.clock[PROMISED] = min(due, default=INFINITY)


def over_share(
    spec: JobSpec, promised: Iterable[JobSpec], gpus: float, shares: Mapping[str, float]
) -> str:
    """Which limit a guarantee to one more job would exceed; empty for none.

    promised: jobs that are guaranteed a finish already. shares: of the cluster's ``gpus``, what these may
    request together where they are of one ``user``, or of one ``pool``; 1 is no limit, nor is there one for
    jobs that name none. Chronus (SoCC'21, section 3.3.2) says why there is to be a limit, and not which.
    """
    limited = {whose: share for whose, share in shares.items() if share < 1.0}
    others = list(promised) if limited else []
    for whose, share in limited.items():
        if not (name := getattr(spec, whose)):
            continue
        taken = sum(one.gpus for one in others if getattr(one, whose) == name)
        if taken + spec.gpus > share * gpus:
            return beyond_share(whose, spec, taken, share * gpus)
    return ""


def beyond_share(whose: str, spec: JobSpec, taken: float, most: float) -> str:
    """In words that guaranteed jobs of its ``user`` or ``pool`` have ``taken`` too many of ``most`` GPUs."""
    return (
        f"guaranteed jobs of {whose} {getattr(spec, whose)!r} request {taken:g} GPUs already, this one"
        f" {spec.gpus:g} more; together they may request {most:g}"
    )


def _due(given: Promise) -> float:
    """When it is to be seen whether a guarantee was kept; infinite where nothing is guaranteed."""
    return INFINITY if given.finish_by is None else given.finish_by + 2.0 * SAME_END
