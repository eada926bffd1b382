"""What every termination rule promises by being registered (`volvelle.testing`)."""

import pytest

from volvelle.core.parts import Termination, terminations
from volvelle.testing import termination_promises
from volvelle.testing.promises import Promise

WRITTEN = [*terminations.all(), "loss:threshold=0.1,every=5", "loss:threshold=3,every=2"]


@pytest.mark.parametrize(
    ("termination", "promise"),
    [(written, promise) for written in WRITTEN for promise in termination_promises.of(written)],
    ids=str,
)
def test_a_termination_rule_keeps_its_promises(
    termination: str, promise: Promise[Termination]
) -> None:
    promise.check(termination)
