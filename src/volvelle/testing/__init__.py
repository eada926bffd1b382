"""The checks that every part of Volvelle passes, for parts of one's own (extra `testing`).

    from volvelle.testing import check_policy

    def test_my_policy_keeps_its_promises():
        check_policy("my_policy.py")

`check_policy`, `check_placement`, `check_admission`, `check_estimator`, `check_termination` and
`check_metric` run a part, written as for the command line, on small random clusters and workloads:
interpreted and as machine code, with GPUs counted and by name. ``policy_promises.of("my_policy.py")`` lists a
part's promises, to be checked one by one. For tests of particular cases, a `Scenario` happens (`happen`),
watched by an `Audit`.
"""

from pkgutil import iter_modules

try:
    import hypothesis  # noqa: F401 - so that the one that is missing is named here
    import pytest
except ImportError as missing:
    raise ImportError(
        f"volvelle.testing needs {missing.name}, of the extra testing: pip install -e '.[testing]'"
    ) from None

pytest.register_assert_rewrite(*(f"{__name__}.{one.name}" for one in iter_modules(__path__)))

from volvelle.testing.admissions import admission_promises
from volvelle.testing.audit import Audit
from volvelle.testing.estimators import estimator_promises
from volvelle.testing.metrics import metric_promises
from volvelle.testing.placements import placement_promises
from volvelle.testing.policies import policy_promises
from volvelle.testing.scenario import Run, Scenario, happen, linear_job, state_of
from volvelle.testing.strategies import Features, clusters, scenarios
from volvelle.testing.terminations import termination_promises

check_policy = policy_promises.check
check_placement = placement_promises.check
check_admission = admission_promises.check
check_estimator = estimator_promises.check
check_termination = termination_promises.check
check_metric = metric_promises.check

__all__ = [
    "Audit",
    "Features",
    "Run",
    "Scenario",
    "admission_promises",
    "check_admission",
    "check_estimator",
    "check_metric",
    "check_placement",
    "check_policy",
    "check_termination",
    "clusters",
    "estimator_promises",
    "happen",
    "linear_job",
    "metric_promises",
    "placement_promises",
    "policy_promises",
    "scenarios",
    "state_of",
    "termination_promises",
]
