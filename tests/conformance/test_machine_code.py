"""A synthesizer chooses the same by machine code as interpreted, whatever part is among its choices.

Runs, predictions and searches by machine code are promises of parts (`volvelle.testing.machine_code`).
"""

from dataclasses import replace

import pytest

from volvelle.core.parts import admissions, estimators, placements, terminations
from volvelle.core.policy import policies
from volvelle.simulate.run import Setting, simulate
from volvelle.systems.blox.synthesizer import Synthesis
from volvelle.testing.machine_code import (
    COUNTED_AND_BY_NAME,
    WORKLOAD,
    assert_the_same,
    small_setting,
)

OTHERS = [
    *(("placement", name) for name in placements.all()),
    *(("estimator", name) for name in estimators.all()),
    *(("admission", name) for name in admissions.all()),
    *(("termination", name) for name in terminations.all()),
]


def check_synthesis(where: Setting, policy: str, admission: str) -> None:
    """The choices of a synthesizer among which the part is, with predictions, of both loops."""
    where = replace(where, predict=True)
    among = Synthesis(policies=(policy, "srtf"), admissions=(admission,), every=40.0)
    compiled, plain = (
        simulate(WORKLOAD, replace(where, synthesis=among), compiled=each) for each in (True, False)
    )
    assert_the_same(compiled.outcomes, plain.outcomes)
    assert compiled.outcomes.choices == plain.outcomes.choices


@pytest.mark.parametrize("policy", list(policies.all()))
@pytest.mark.parametrize("placement", COUNTED_AND_BY_NAME)
def test_a_synthesizer_chooses_the_same(policy: str, placement: str) -> None:
    check_synthesis(small_setting(placement=placement), policy, "accept-all")


@pytest.mark.parametrize(("kind", "name"), OTHERS, ids=str)
def test_a_synthesizer_chooses_the_same_beside_other_parts(kind: str, name: str) -> None:
    admission = name if kind == "admission" else "accept-all"
    check_synthesis(small_setting(**{kind: name}), "las:round=30", admission)
