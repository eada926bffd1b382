"""The Gantt chart's data: all jobs, real lanes or greedy ones, and a bound on its size."""

import json
from typing import Any

import numpy as np
from report_runs import empty_run, outcomes_of, simulated, small_run

from volvelle.model.job import JobSpec
from volvelle.report.gantt import Bars, bars_of, gantt_json
from volvelle.report.gantt_view import coloring, gantt_drawing, gantt_html, gantt_note


def fractions(count: int) -> list[JobSpec]:
    return [JobSpec(id=str(i), submit_time=0.0, gpus=0.5) for i in range(count)]


def overlaps(bars: Bars) -> bool:
    """Whether two bars lie on the same lane at the same time."""
    free_from = np.full(bars.lanes, -np.inf)
    for start, end, lane, height in zip(bars.start, bars.end, bars.lane, bars.height, strict=True):
        if (free_from[lane : lane + height] > start + 1e-6).any():
            return True
        free_from[lane : lane + height] = end
    return False


def area(bars: Bars) -> float:
    return float(((bars.end - bars.start) * bars.height).sum()) / bars.per_gpu


def test_bars_lie_on_the_gpus_that_were_held() -> None:
    run = small_run()
    bars = bars_of(run)
    assert bars.placed
    assert bars.lanes == 64
    assert np.array_equal(np.unique(bars.job), np.arange(200))
    assert not overlaps(bars)
    assert np.isclose(area(bars), run.gpu_seconds.sum())
    segment = int(np.flatnonzero(run.segments.job == 5)[0])
    first, last = run.segments.slot_offsets[segment : segment + 2]
    mine = bars.job == 5
    lanes = [
        lane + k
        for lane, h in zip(bars.lane[mine], bars.height[mine], strict=True)
        for k in range(h)
    ]
    assert sorted(lanes) == sorted(run.segments.slots[first:last])


def test_counted_gpus_get_lanes_without_overlap() -> None:
    run = simulated(slots=False)
    bars = bars_of(run)
    assert not bars.placed
    assert bars.lanes == 64
    assert not overlaps(bars)
    assert np.isclose(area(bars), run.gpu_seconds.sum())
    assert "not which" in gantt_note(run, bars)


def test_fractions_of_a_gpu_share_it() -> None:
    start, finish = np.zeros(4), np.full(4, 10.0)
    for held in (None, [[0], [0], [1], [1]]):
        bars = bars_of(outcomes_of(fractions(4), start, finish, 2, held))
        assert (bars.lanes, bars.per_gpu) == (4, 2)
        assert sorted(bars.lane.tolist()) == [0, 1, 2, 3]


def test_too_many_holdings_keep_the_longest_and_say_so() -> None:
    run = small_run()
    bars = bars_of(run, most=50)
    assert bars.left_out == 150
    shortest_kept = float((bars.end - bars.start).min())
    assert (run.segments.end - run.segments.start > shortest_kept + 1e-6).sum() <= 50
    assert "150 shorter holdings are left out" in gantt_note(run, bars)
    data = json.loads(gantt_json(run, bars))
    assert len(data["jobs"]["id"]) == len(np.unique(bars.job)) <= 50


def test_the_data_can_be_decoded_to_every_job_and_bar() -> None:
    run = small_run()
    bars = bars_of(run)
    data: dict[str, Any] = json.loads(gantt_json(run, bars))
    jobs = data["jobs"]
    assert jobs["id"] == [spec.id for spec in run.specs]
    submits = np.cumsum(jobs["submit"]) * data["tick"] + run.submit_time[0]
    assert np.allclose(submits, run.submit_time, atol=data["tick"])
    stays = np.array(jobs["stay"]) * data["tick"]
    assert np.allclose(stays, run.jct, atol=data["tick"])
    starts = np.cumsum(data["bars"]["start"]) * data["tick"] + run.submit_time[0]
    assert np.allclose(starts, bars.start, atol=data["tick"])
    assert [jobs["user"]["names"][i] for i in jobs["user"]["of"]] == [s.user for s in run.specs]


def test_jobs_that_never_started_or_finished_have_no_time() -> None:
    run = simulated(load=1.5, until=30_000.0)
    data = json.loads(gantt_json(run, bars_of(run)))
    assert data["jobs"]["wait"].count(None) == int(np.isnan(run.first_start).sum()) > 0
    assert data["jobs"]["stay"].count(None) == int(np.isnan(run.finish).sum()) > 0


def test_names_cannot_end_the_script() -> None:
    specs = [JobSpec(id="</script><b>x", submit_time=0.0, user="<!--", name="\u2028<i>")]
    run = outcomes_of(specs, np.zeros(1), np.ones(1), 1)
    html = gantt_html(run, bars_of(run))
    assert "</script><b>" not in html
    assert "<!--" not in html
    assert html.count("</script>") == 1
    assert json.loads(gantt_json(run, bars_of(run)))["jobs"]["id"] == ["</script><b>x"]


def test_colours_follow_what_tells_jobs_apart() -> None:
    run = small_run()
    assert coloring(run) == "class"
    specs = [JobSpec(id=str(i), submit_time=0.0, gpus=float(i + 1)) for i in range(12)]
    many = outcomes_of(specs, np.zeros(12), np.ones(12), 78)
    assert coloring(many) == "width"
    described = gantt_drawing(many, bars_of(many))
    shown = [getattr(mark, "text", "") for mark in described.marks]
    assert "others" in shown


def test_no_jobs_no_bars() -> None:
    empty = empty_run()
    bars = bars_of(empty)
    assert len(bars.job) == 0
    assert json.loads(gantt_json(empty, bars))["jobs"]["id"] == []
