"""Clusters with racks and blocks: gangs near each other, and as slow as the levels that they span say."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.core.parts import placements
from volvelle.live.status.reasons import WaitingReason, waiting_reasons
from volvelle.model.cluster import Cluster, cluster_from
from volvelle.model.job import Job, Truth
from volvelle.model.problems import Problem
from volvelle.testing.resources import partly_taken
from volvelle.testing.scenario import Scenario, happen, linear_job
from volvelle.testing.strategies import EVERYTHING, scenarios


def cluster(**levels: float) -> Cluster:
    """Two blocks of two racks of two nodes of four GPUs; ``levels``: their weights."""
    blocks = [
        {"name": block, "count": 4, "gpus": 4, "domains": {"block": block}} for block in ("a", "b")
    ]
    rack = {"name": "rack", "nodes": 2, "weight": levels.get("rack", 0.0)}
    block = {"name": "block", "weight": levels.get("block", 0.0)}
    return cluster_from({"levels": [block, rack], "nodes": blocks}, "here")


@given(st.sets(st.integers(0, 31), max_size=31), st.data())
def test_a_gang_is_in_the_lowest_domain_that_has_room(taken: set[int], data: st.DataObject) -> None:
    resources = partly_taken(cluster(), taken)
    free = resources.free
    gpus = data.draw(st.integers(1, int(free.sum())))
    chosen = placements.make("topology-aware").choose(free, gpus, resources)
    assert chosen is not None
    assert chosen.sum() == gpus
    for width in (1, 2, 4):
        domains = [slice(at, at + width) for at in range(0, 8, width)]
        if room := [free[one].sum() for one in domains if free[one].sum() >= gpus]:
            (its,) = [one for one in domains if chosen[one].any()]
            assert free[its].sum() == min(room), "the one that leaves least over"
            return


def test_domains_that_no_gang_needs_count_as_nodes() -> None:
    resources = partly_taken(cluster(rack=2.0, block=5.0), ())
    apart = {
        nodes: resources.nodes_apart(np.array(nodes), 8)
        for nodes in itertools.combinations(range(8), 2)
    }
    assert apart[0, 1] == 0.0, "a rack"
    assert apart[0, 2] == 2.0, "two racks of a block"
    assert apart[0, 4] == 7.0, "two blocks"
    assert resources.nodes_apart(np.arange(8), 32) == 0.0, "a gang that needs them all"


@pytest.mark.parametrize("compiled", [False, True])
def test_a_gang_is_slower_over_racks_that_it_does_not_need(compiled: bool) -> None:
    first, gang = linear_job(0, 0.0, 4.0, 500.0), linear_job(1, 1.0, 8.0, 100.0)
    gang = Job(gang.spec, Truth(work=gang.truth.work, spread_slowdown=0.1))
    jct = {}
    for placement in ("consolidated", "topology-aware"):
        scenario = Scenario.of(cluster(rack=2.0), [first, gang], placement=placement)
        jct[placement] = happen(scenario, compiled=compiled).outcomes.jct[1]
    assert jct == pytest.approx({"consolidated": 120.0, "topology-aware": 100.0})


@settings(max_examples=20)
@given(scenario=scenarios(replace(EVERYTHING, levels=True)))
def test_a_compiled_run_over_racks_is_the_interpreted_one(scenario: Scenario) -> None:
    scenario = scenario.under("srtf", "topology-aware")
    assert happen(scenario, compiled=True).journal_bytes == happen(scenario).journal_bytes


def test_why_names_the_domains_with_most_that_is_free() -> None:
    jobs = [linear_job(0, 0.0, 20.0, 500.0), linear_job(1, 0.0, 20.0, 500.0)]
    scenario = Scenario.of(cluster(), jobs, placement="topology-aware")
    scheduler, said = scenario.scheduler(), dict[int, WaitingReason]()
    happen(
        scenario, scheduler=scheduler, on_moment=lambda _: said.update(waiting_reasons(scheduler))
    )
    text = "waits for 20 GPUs: 12 free, most on b-1 (4), in rack rack-3 (8), in block b (12)"
    assert said[1] == (text, 12)


def test_a_domain_of_a_level_that_is_not_declared_is_refused() -> None:
    document = {"levels": [{"name": "rack"}], "nodes": [{"gpus": 4, "domains": {"rak": "1"}}]}
    with pytest.raises(Problem, match=r"level 'rak'.*did you mean 'rack'"):
        cluster_from(document, "here")
    document = {"levels": [{"name": "rack"}, {"name": "rack"}], "nodes": [{"gpus": 4}]}
    with pytest.raises(Problem, match="two levels are called 'rack'"):
        cluster_from(document, "here")
