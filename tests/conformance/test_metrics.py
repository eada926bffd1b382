"""What every metric promises by being registered (`volvelle.testing`)."""

import pytest

from volvelle.metrics.catalogue import Metric, metrics
from volvelle.testing import metric_promises
from volvelle.testing.promises import Promise


@pytest.mark.parametrize(
    ("metric", "promise"),
    [(name, promise) for name in metrics.all() for promise in metric_promises.of(name)],
    ids=str,
)
def test_a_metric_keeps_its_promises(metric: str, promise: Promise[Metric]) -> None:
    promise.check(metric)
