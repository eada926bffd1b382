"""The verdict of a comparison: every sentence is held against the runs, on workloads of many kinds."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from report_runs import simulated
from systems_here import here, needs

from volvelle.core.composition import WrittenComposition
from volvelle.core.policy import policies
from volvelle.metrics.catalogue import measure
from volvelle.metrics.outcomes import RECORDED, Outcomes, Steps
from volvelle.model.arrays import BoolColumn
from volvelle.model.cluster import Cluster, parse_cluster
from volvelle.model.node import Node
from volvelle.model.overheads import Overheads
from volvelle.report.cautions import FreeStops, PartOfTheLoad, TooFewWanted, Unheld, Unjudged
from volvelle.report.compositions import baseline_of
from volvelle.report.grid import Grid, GridRun
from volvelle.report.owner import in_short
from volvelle.report.sentences import (
    CONTESTS,
    Alike,
    Best,
    BestChange,
    Costs,
    Idle,
    Loses,
    Needs,
    Sentence,
    WaitedMost,
    WaitingCost,
    Without,
)
from volvelle.report.verdict import verdict
from volvelle.simulate.run import Setting, simulate
from volvelle.simulate.sources import generated
from volvelle.testing.scenario import linear_job
from volvelle.workload.generators import generators
from volvelle.workload.workload import Workload

POLICIES = ("fifo", "sjf", "srsf", "las:round=5m", "easy")
WORKLOADS = [
    ("lognormal:jobs=120,load=1.2", 1),
    ("lognormal:jobs=120,load=0.5", 2),
    ("lognormal:jobs=120,load=2", 3),
    ("lognormal:jobs=120,load=0.9,sigma=0.3", 4),
    ("lognormal:jobs=120,load=1.5,sigma=2.5", 5),
    ("lognormal:jobs=120,load=0.1", 6),
    ("demo:jobs=120", 7),
    ("demo:jobs=120", 8),
    *((one, 9) for one in here(generators, ["gavel:jobs=60,jobs_per_hour=2"])),
    ("lognormal:jobs=120,load=1,width_exponent=2", 10),
]
TIES = 0.005


@cache
def grid(workload: str, seed: int, names: tuple[str, ...] = POLICIES) -> Grid:
    cluster = parse_cluster("2x8")
    source = generated(workload, seed, cluster.gpus).workload
    return Grid.of(
        GridRun(
            policy,
            {"policy": policy},
            None,
            seed,
            simulate(
                source, Setting(cluster=cluster, composition=WrittenComposition(policy))
            ).outcomes,
        )
        for policy in names
    )


def by_name(of: Grid) -> dict[str, Outcomes]:
    return {run.name: run.outcomes for run in of.runs}


def close(a: float, b: float) -> bool:
    return abs(a - b) <= TIES * max(abs(a), abs(b))


@pytest.mark.parametrize(("workload", "seed"), WORKLOADS)
def test_every_sentence_is_true_of_the_runs(workload: str, seed: int) -> None:
    runs = by_name(grid(workload, seed))
    said = [*in_short(grid(workload, seed), price=2.0), *verdict(grid(workload, seed), price=2.0)]
    for sentence in said:
        holds(sentence, runs)
    contests = [win.measure for one in said if isinstance(one, Best) for win in one.wins]
    assert len(contests) == len(set(contests))
    for contest in CONTESTS:
        figures = [measure(outcomes, contest) for outcomes in runs.values()]
        told_apart = not any(np.isnan(figures)) and not close(min(figures), max(figures))
        assert (contest in contests) == told_apart


def holds(sentence: Sentence, runs: dict[str, Outcomes]) -> None:
    """Raise where a sentence is not true."""
    jct = {name: float(np.mean(outcomes.jct)) for name, outcomes in runs.items()}
    match sentence:
        case Best(best, baseline, wins):
            for contest, least, before in wins:
                figures = {name: measure(each, contest) for name, each in runs.items()}
                assert least == min(figures.values())
                assert before == figures[baseline]
                as_good = {name for name in figures if close(figures[name], least)}
                if baseline in best:
                    assert baseline in as_good
                else:
                    assert {one for one in as_good if not_first(one, runs)} == as_good - set(best)
            named = [baseline] if baseline in best else best
            assert all(name in str(sentence) for name in named)
            assert ("Nothing beats" in str(sentence)) == (baseline in best)
        case Needs(run, durations, preemptions, resized, known):
            held = runs[run].segments
            other = {j for j, n in zip(held.job, held.gpus, strict=True) if n != runs[run].gpus[j]}
            assert resized == len(other) / len(runs[run])
            assert ("elastic" in str(sentence)) == (resized > 0.0)
            assert jct[run] == leading(jct)
            assert (durations == "exact") == policies.make(run).needs_durations
            if known is not None:
                assert known == (min(jct, key=jct.__getitem__), min(jct.values()))
                assert policies.make(known[0]).needs_durations
            assert preemptions == pytest.approx(runs[run].preemptions.mean())
            assert ("never preempts" in str(sentence)) == (preemptions == 0.0)
        case Without(run, figure, baseline, before, durations):
            able = [n for n, outcomes in runs.items() if outcomes.preemptions.mean() <= 0.05]
            assert figure == pytest.approx(min(jct[name] for name in able))
            assert (figure, before) == pytest.approx((jct[run], jct[baseline]))
            assert figure < before
            assert ("has to know" in str(sentence)) == (durations == "exact")
            assert (durations == "exact") == policies.make(run).needs_durations
        case Loses(run, baseline, share, worst):
            added = runs[run].jct - runs[baseline].jct
            assert share == pytest.approx((added > 1e-9 * runs[baseline].jct).mean())
            for name, more in worst:
                rows = rows_of(name, runs[run])
                assert rows.sum() >= 10
                after, before = runs[run].jct[rows].sum(), runs[baseline].jct[rows].sum()
                assert more == pytest.approx(after / before - 1.0)
                assert more > 0.05
        case Costs(run, hours, baseline, before, price):
            assert hours == pytest.approx(runs[run].gpu_seconds.sum() / 3600)
            assert before == pytest.approx(runs[baseline].gpu_seconds.sum() / 3600)
            assert price is not None
            assert f"{price * hours:,.0f}" in str(sentence)
        case FreeStops(names):
            assert all(runs[run].preemptions.mean() > 0.05 for run in names)
        case Alike(names):
            shown = runs[names[0]]
            for twin in [runs[name] for name in names[1:]]:
                np.testing.assert_array_equal(shown.finish, twin.finish)
                np.testing.assert_array_equal(shown.segments.start, twin.segments.start)
        case Idle(run, days, idle, beside_waits):
            assert idle / days == pytest.approx(1.0 - measure(runs[run], "utilisation") / 100.0)
            assert 0.0 <= beside_waits <= idle
        case WaitedMost(run, groups):
            for name, mean, share in groups:
                rows = rows_of(name, runs[run])
                assert mean == pytest.approx(runs[run].queueing_delay[rows].mean())
                assert mean >= 1.1 * runs[run].queueing_delay[~rows].mean()
                assert share == pytest.approx(rows.mean())
        case WaitingCost(run, days, mean, _, _):
            assert days == pytest.approx(runs[run].queueing_delay.sum() / 86400.0)
            assert mean == pytest.approx(runs[run].queueing_delay.mean())
        case TooFewWanted(load, gpus, _):
            fifo = runs["fifo"]
            assert load == pytest.approx(fifo.gpu_seconds.sum() / np.ptp(fifo.submit_time))
            assert gpus == fifo.capacity.values[0]
        case BestChange(run, wait, finish, baseline, wait_before, before):
            assert (finish, before) == pytest.approx((leading(jct), jct[baseline]))
            assert wait == pytest.approx(runs[run].queueing_delay.mean())
            assert wait_before == pytest.approx(runs[baseline].queueing_delay.mean())
        case Unjudged(left):
            assert {runs[name].status.tolist().count("finished") for name in left}


def leading(jct: dict[str, float]) -> float:
    """The least mean completion time without known durations, or of all where that is fifo's."""
    able = min(jct[name] for name in jct if not policies.make(name).needs_durations)
    return able if able < jct["fifo"] and not close(able, jct["fifo"]) else min(jct.values())


def not_first(name: str, runs: dict[str, Outcomes]) -> bool:
    """Whether a run before this one is the same in every job."""
    before = list(runs)[: list(runs).index(name)]
    return any(np.array_equal(runs[one].finish, runs[name].finish) for one in before)


def rows_of(name: str, outcomes: Outcomes) -> BoolColumn:
    kind, _, which = name.partition(" ")
    if kind == "jobs":
        wanted = float(which.split()[1])
        return np.array([gpus == wanted for gpus in outcomes.gpus.tolist()])
    return np.array([getattr(spec, kind) == which for spec in outcomes.specs])


def test_the_owner_reads_five_sentences_with_a_price() -> None:
    said = in_short(grid(*WORKLOADS[2]), price=1.5)
    kinds = [type(each) for each in said]
    assert kinds == [Idle, WaitedMost, WaitingCost, BestChange, Needs]
    [waiting] = [each for each in said if isinstance(each, WaitingCost)]
    assert f"{24 * 1.5 * waiting.beside_waits:,.0f} at 1.5 an hour" in str(waiting)
    assert in_short(grid(*WORKLOADS[0], names=("fifo",))) == ()
    nothing = WaitingCost("fifo", 0.0, 0.0, 0.0, None)
    assert str(nothing) == "Waiting cost nothing under fifo: jobs started as they came."


def on(cluster: str, policies: tuple[str, ...] = ("fifo", "srsf", "easy")) -> Grid:
    """The runs on so many nodes of the jobs that load 24 GPUs by half."""
    nodes = parse_cluster(cluster)
    source = generated("lognormal:jobs=200,load=0.5", 1, 24).workload
    settings = {
        policy: Setting(cluster=nodes, composition=WrittenComposition(policy))
        for policy in policies
    }
    return Grid.of(
        GridRun(
            policy,
            {"policy": policy},
            None,
            0,
            simulate(source, setting).outcomes,
            cluster=nodes,
        )
        for policy, setting in settings.items()
    )


def test_where_jobs_do_not_wait_a_cluster_is_named_on_which_policies_differ() -> None:
    large = on("60x4")
    few = in_short(large)[-1]
    assert isinstance(few, TooFewWanted)
    holds(few, by_name(large))
    assert str(few).endswith(f"of 240 busy. Try a smaller cluster: {few.fewer}.")
    assert few.fewer == "--cluster 4x4"
    *_, last = in_short(on(few.fewer.split()[1]))
    assert isinstance(last, Needs)
    *_, typed = in_short(on("20x4:v100,40x4:a100", ("fifo", "srsf")))
    assert isinstance(typed, TooFewWanted)
    assert typed.fewer == "--cluster 2x4:v100,3x4:a100"
    odd = Cluster((Node("one", 120, "a/b"), Node("two", 120, "a/b")))
    for cluster in (None, odd):
        unknown = Grid.of(run._replace(cluster=cluster) for run in large.runs)
        assert str(in_short(unknown)[-1]).endswith("of 240 busy.")


def test_a_policy_that_needs_no_durations_leads_and_the_quicker_one_is_named_behind_it() -> None:
    *_, change, needs = map(str, in_short(grid(*WORKLOADS[2])))
    assert change.startswith("The best change: las:round=5m. ")
    assert "needs no known durations" in needs
    assert "If it were known how long jobs take, srsf would finish them after" in needs
    told = Grid.of(
        run._replace(parts={**run.parts, "estimator": "declared"})
        for run in grid(*WORKLOADS[2]).runs
    )
    *_, change, needs = map(str, in_short(told))
    assert change.startswith("The best change: srsf. ")
    assert needs.startswith("srsf goes by estimates of how long jobs take and preempts")


def test_idle_gpus_are_counted_apart_while_jobs_wait() -> None:
    """One job of 16 GPUs waits 100 s for one of 8 that ends; then nothing waits."""
    source = Workload.of([linear_job(0, 0.0, 8.0, 100.0), linear_job(1, 0.0, 16.0, 50.0)], "two")
    cluster = parse_cluster("2x8")
    settings = {
        name: Setting(cluster=cluster, composition=WrittenComposition(name))
        for name in ("fifo", "sjf")
    }
    runs = [
        GridRun(name, {"policy": name}, None, 0, simulate(source, setting).outcomes)
        for name, setting in settings.items()
    ]
    idle = in_short(Grid.of(runs))[0]
    assert isinstance(idle, Idle)
    assert (idle.run, idle.of, idle.idle, idle.beside_waits) == pytest.approx(
        ("fifo", *(each / 86400.0 for each in (16 * 150, 800, 800)))
    )


def test_different_policies_win() -> None:
    winners = {
        sentence.runs
        for workload, seed in WORKLOADS
        for sentence in verdict(grid(workload, seed))
        if isinstance(sentence, Best)
    }
    assert winners >= {(policy,) for policy in POLICIES if policy != "fifo"}  # alone at something
    for workload, seed in WORKLOADS:
        said = [str(sentence) for sentence in verdict(grid(workload, seed))]
        assert sum("Nothing beats" in sentence for sentence in said) <= 1


def test_the_best_change_is_told_where_both_times_read_alike() -> None:
    said = str(BestChange("easy", 0.0, 4500.0, "fifo", 32.0, 4527.0))
    assert said.endswith("instead of 32s, and take 0.596 % less time to finish.")


@needs("pcs")
def test_it_is_said_whose_jobs_have_to_be_elastic() -> None:
    elastic = grid("pcs-gavel:jobs=60", 1, ("fifo", "afs-l"))
    [needs] = [one for one in in_short(elastic) if isinstance(one, Needs)]
    assert needs.run == "afs-l"
    assert needs.resized > 0.0
    holds(needs, by_name(elastic))


def test_who_left_jobs_unfinished_is_not_judged() -> None:
    whole = simulated(60)
    cut = simulated(60, shortest_first=True, until=float(np.median(whole.finish)))
    runs = {"fifo": whole, "sjf": cut}
    said = verdict(Grid.of(GridRun(n, {"policy": n}, None, 0, each) for n, each in runs.items()))
    assert said == (Unjudged(("sjf",)),)


def test_several_seeds_are_judged_by_their_means() -> None:
    runs = [
        replace_name(run, seed)
        for workload, seed in WORKLOADS[:2]
        for run in grid(workload, seed).runs
    ]
    said = verdict(Grid.of(runs))
    [best] = [one for one in said if isinstance(one, Best) and one.wins[0].measure == "jct:mean"]
    figures = [measure(run.outcomes, "jct:mean") for run in runs if run.label == best.runs[0]]
    assert len(figures) == 2
    assert best.wins[0].figure == pytest.approx(np.mean(figures))


def replace_name(run: GridRun, seed: int) -> GridRun:
    return run._replace(name=f"{run.name}, seed {seed}", seed=seed)


def test_the_reference_is_what_the_others_are_held_against() -> None:
    said = verdict(grid(*WORKLOADS[0]), reference="sjf")
    assert {one.baseline for one in said if isinstance(one, Best)} == {"sjf"}


@cache
def with_record() -> Grid:
    """What fifo did stands for what the trace recorded."""
    first, *others = grid(*WORKLOADS[0]).runs
    return Grid.of([first._replace(name=RECORDED, parts={"policy": RECORDED}), *others])


def test_what_was_recorded_is_the_baseline() -> None:
    said = verdict(with_record(), price=2.0)
    for sentence in said:
        holds(sentence, by_name(with_record()))
        assert "under recorded" not in str(sentence)
    assert {one.baseline for one in said if isinstance(one, Best | Loses | Costs)} == {RECORDED}
    assert any("in the trace" in str(one) for one in said)


def test_what_only_the_trace_finished_is_held_against_nobody() -> None:
    recorded, *others = with_record().runs
    status = others[0].outcomes.status.copy()
    status[3] = "rejected"
    lacking = [run._replace(outcomes=replace(run.outcomes, status=status)) for run in others]
    said = verdict(Grid.of([recorded, *lacking]))
    assert said[-1] == Unheld(1)
    assert all(one.baseline != RECORDED for one in said if isinstance(one, Best | Loses))


def test_one_run_and_runs_over_rates_have_no_verdict() -> None:
    [first, second, *_] = grid(*WORKLOADS[0]).runs
    assert verdict(Grid.of([first])) == ()
    assert verdict(Grid.of([first._replace(rate=1.0), second._replace(rate=2.0)])) == ()


def test_a_name_that_is_no_registered_policy_is_taken_to_need_durations() -> None:
    one, two = grid(*WORKLOADS[0]).runs[:2]
    named = two._replace(name="mine.py", parts={"policy": "mine.py"})
    needs = [each for each in in_short(Grid.of([one, named])) if isinstance(each, Needs)]
    assert [each.durations for each in needs] == ["exact"]


def test_policies_that_decide_alike_share_a_row_and_a_name() -> None:
    alike = grid(*WORKLOADS[0], ("fifo", "fifo-skip", "max-min", "srsf"))
    assert alike.alike == [("fifo",), ("fifo-skip", "max-min"), ("srsf",)]
    [table] = alike.tables((), ("jct:mean", "makespan"))
    assert [row[0] for row in table.rows] == ["fifo", "fifo-skip, max-min", "srsf"]
    said = verdict(alike, reference="max-min")
    assert said[0] == Alike(("fifo-skip", "max-min"))
    assert {one.baseline for one in said if isinstance(one, Best)} == {"fifo-skip"}
    assert baseline_of(alike, "max-min") == "fifo-skip, max-min"
    assert len(alike.tidy().rows) == 4


def test_stops_that_cost_nothing_are_named_before_the_winner_that_preempts() -> None:
    free = grid(*WORKLOADS[0])
    first = verdict(free)[0]
    assert isinstance(first, FreeStops)
    preempting = [run.label for run in free.runs if run.outcomes.preemptions.mean() > 0.05]
    assert len(preempting) > 1
    assert list(first.runs) == preempting
    charged = Grid.of(run._replace(overheads=Overheads(restore=60.0)) for run in free.runs)
    assert not [one for one in verdict(charged) if isinstance(one, FreeStops)]
    still = grid(*WORKLOADS[0], ("fifo", "sjf"))
    assert not [one for one in verdict(still) if isinstance(one, FreeStops)]


def test_a_record_of_a_part_of_the_load_is_said_first_and_no_baseline() -> None:
    recorded, *others = with_record().runs
    larger = Steps(np.zeros(1), recorded.outcomes.capacity.values[:1] * 10.0)
    nodes = parse_cluster("40x4")
    runs = [
        recorded._replace(outcomes=replace(recorded.outcomes, capacity=larger), cluster=nodes),
        *(run._replace(outcomes=replace(run.outcomes, capacity=larger)) for run in others),
    ]
    part, *_ = in_short(Grid.of(runs))
    rest = verdict(Grid.of(runs))
    assert isinstance(part, PartOfTheLoad)
    assert part.gpus == 160.0
    assert part.peak == 16.0
    assert str(part).endswith(
        "16 of 160 GPUs at once: simulate a cluster of that size, --cluster 4x4."
    )
    assert part.beside_idle == pytest.approx(part.waited)
    assert all(one.baseline != RECORDED for one in rest if isinstance(one, Best | Loses | Costs))
    assert baseline_of(Grid.of(runs)) != RECORDED
    assert not any(isinstance(one, PartOfTheLoad) for one in in_short(with_record()))
