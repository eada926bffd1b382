"""Promises: kept, broken, undecided."""

from dataclasses import replace

import numpy as np
from measured_runs import NAN, Ran, outcomes_of

from volvelle.core.decision import Promise
from volvelle.metrics import promises
from volvelle.metrics.catalogue import measure
from volvelle.metrics.outcomes import JobStatus, Promised
from volvelle.model.job import Reward

DUE = (Reward(10, 100),)
RAN = outcomes_of(
    [
        Ran(0, [(0, 10, 1)], rewards=DUE),  # in time
        Ran(0, [(0, 11, 1)], rewards=DUE),  # late
        Ran(0, [(0, 9, 1)], rewards=DUE),  # in time, but the promise was taken back
        Ran(0, [(0, 19, 1)], rewards=DUE),  # promised another finish, which it keeps
        Ran(0, [(0, 30, 1)], rewards=DUE),  # told at once that nothing is guaranteed
        Ran(0, [(0, 5, 1)]),
        Ran(0, status=JobStatus.CANCELLED, rewards=DUE),
        Ran(0, status=JobStatus.WAITING, rewards=DUE),
        Ran(0, status=JobStatus.FAILED, rewards=DUE),
    ],
    end=50,
)
TOLD = [
    *(Promised(0.0, Promise(job, 10.0, 0)) for job in (0, 1, 2, 3, 6, 8)),
    Promised(0.0, Promise(4, earliest=30.0, reason="keeps none of its deadlines")),
    Promised(0.0, Promise(7, 60.0)),
    Promised(1.0, Promise(2, reason="a node left")),
    Promised(2.0, Promise(3, 20.0, reason="another step")),
]
OUTCOMES = replace(RAN, promises=tuple(TOLD))


def test_the_last_promise_counts_and_one_taken_back_is_broken() -> None:
    np.testing.assert_array_equal(promises.broken(OUTCOMES), [0, 1, 1, 0, NAN, NAN, NAN, NAN, 1])
    after_its_end = [*TOLD, Promised(12.0, Promise(0, reason="it was not known to have ended"))]
    assert promises.broken(replace(OUTCOMES, promises=tuple(after_its_end)))[0] == 0
    late = replace(OUTCOMES, end_time=70.0)
    assert promises.broken(late)[7] == 1


def test_who_was_promised_something_of_those_with_deadlines() -> None:
    np.testing.assert_array_equal(promises.promised(OUTCOMES), [1, 1, 1, 1, 0, NAN, 1, 1, 1])
    assert np.isnan(promises.promised(RAN)).all()
    assert measure(OUTCOMES, "guarantee_broken") == 60.0
