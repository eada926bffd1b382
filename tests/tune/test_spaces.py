"""What policies declare as searchable."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volvelle.core.policy import policies
from volvelle.model.job import Job, JobSpec, Truth
from volvelle.model.throughput import Linear, PerType
from volvelle.simulate.sources import generated

HISTORY = generated("lognormal:jobs=240,load=1.5", 3, 16).workload


def spaces() -> list[str]:
    jobs = HISTORY.jobs
    return [name for name, part in policies.all().items() if part.search_space(jobs) is not None]


def test_rates_by_gpu_type_make_spaces_of_finite_numbers() -> None:
    rates = Truth(work=9e3, throughput=PerType({"a": Linear(1.0), "b": Linear(2.0)}))
    jobs = [Job(JobSpec(id=name, submit_time=0.0), rates) for name in "xyz"]
    for policy in spaces():
        space = policies.get(policy).search_space(jobs)
        assert space is not None
        assert np.isfinite([(one.low, one.high) for one in space.dimensions]).all(), policy


@pytest.mark.parametrize("policy", spaces())
@given(data=st.data())
def test_every_point_of_a_space_can_be_built(policy: str, data: st.DataObject) -> None:
    space = policies.get(policy).search_space(HISTORY.jobs)
    assert space is not None
    shares = [data.draw(st.floats(0, 1)) for _ in space.dimensions]
    point = tuple(d.at(share) for d, share in zip(space.dimensions, shares, strict=True))
    for dimension, value, share in zip(space.dimensions, point, shares, strict=True):
        assert dimension.low <= value <= dimension.high
        assert dimension.share(value) == pytest.approx(share, abs=1e-9)
    policies.make(f"{policy}:{space.write(point)}")
    for start in space.starts:
        policies.make(f"{policy}:{space.write(start)}")
    if space.finer is not None:
        finer = space.finer(space.write(point))
        shares = [data.draw(st.floats(0, 1)) for _ in finer.dimensions]
        varied = finer.write(finer.point(shares))
        policies.make(f"{policy}:{varied}")
        again = space.finer(varied)
        rewritten = again.write(again.starts[0])  # the last digit of what is written is rounded
        assert [*map(float, re.findall(r"\d[\d.e+-]*", rewritten))] == pytest.approx(
            [*map(float, re.findall(r"\d[\d.e+-]*", varied))]
        )
