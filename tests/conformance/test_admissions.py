"""What every admission promises by being registered (`volvelle.testing`)."""

import pytest

from volvelle.core.parts import Admission, admissions
from volvelle.testing import admission_promises
from volvelle.testing.promises import Promise

WRITTEN = [*admissions.all(), "backlog:factor=0.5", "deadlines:margin=0.2,otherwise=reject"]


@pytest.mark.parametrize(
    ("admission", "promise"),
    [(written, promise) for written in WRITTEN for promise in admission_promises.of(written)],
    ids=str,
)
def test_an_admission_keeps_its_promises(admission: str, promise: Promise[Admission]) -> None:
    promise.check(admission)
