"""``pytest --pyargs volvelle.testing``: parts that installed packages plug in keep their promises."""

from importlib.metadata import entry_points
from typing import Any

import pytest

from volvelle.core.parts import admissions, estimators, placements, terminations
from volvelle.core.policy import policies
from volvelle.metrics.catalogue import metrics
from volvelle.testing import (
    admission_promises,
    estimator_promises,
    metric_promises,
    placement_promises,
    policy_promises,
    termination_promises,
)
from volvelle.testing.promises import Promises

KINDS = (
    (policies, policy_promises),
    (placements, placement_promises),
    (admissions, admission_promises),
    (estimators, estimator_promises),
    (terminations, termination_promises),
    (metrics, metric_promises),
)
PLUGGED_IN = [
    pytest.param(promises, entry.name, id=f"{registry.group}-{entry.name}")
    for registry, promises in KINDS
    for entry in entry_points(group=registry.group)
]


@pytest.mark.parametrize(("promises", "name"), PLUGGED_IN)
def test_a_part_keeps_its_promises(promises: Promises[Any], name: str) -> None:
    """All that its kind promises; skipped where no installed package plugs in a part."""
    promises.check(name)
