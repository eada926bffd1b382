"""Pollux: the goodput function, its fit, the search over placements, and the policy in a world."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from growth_cases import plain
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_training import application, training_job

from volvelle.core import goodput as functions
from volvelle.core.events import TrainingReported
from volvelle.core.goodput import arrays_of, best_batch, goodputs
from volvelle.model.cluster import parse_cluster
from volvelle.model.goodput import Goodput, StepParameters
from volvelle.model.job import Job
from volvelle.model.overheads import Overheads
from volvelle.simulate.agent import Agent, fit_error, fitted, minimised
from volvelle.systems.pollux.search import AllocationProblem, fitness_of, repair, search
from volvelle.testing.scenario import Run, Scenario, happen, linear_job

SEARCH = import_module("volvelle.systems.pollux.search")
TRUE = StepParameters(0.05, 0.002, 0.1, 0.004, 0.02, 0.001, 1.6)


@contextmanager
def all_plain(module: ModuleType) -> Iterator[None]:
    """Every compiled loop of ``module`` replaced by its plain twin."""
    with ExitStack() as replaced:
        for name, loop in list(vars(module).items()):
            if hasattr(loop, "py_func"):
                replaced.enter_context(patch.object(module, name, plain(loop)))
        yield


def told(sqr: float = 1.0, var: float = 4.0, most_local: int = 128) -> Goodput:
    return Goodput(TRUE, sqr, var, 64, 2048, 16, most_local)


class TestGoodput:
    def test_the_best_batch_is_the_best_of_all_that_are_tried(self) -> None:
        goodput, local, passes = best_batch(*arrays_of(told()), True, 8)
        batch = 8 * local * passes
        compute = 0.05 + 0.002 * local
        step = (compute**1.6 + (0.1 + 0.004 * 6) ** 1.6) ** (1 / 1.6)
        scale = batch / 64
        efficiency = (4 + 1) / (4 / scale + 1) / scale
        seconds = step + (passes - 1) * compute
        assert goodput == pytest.approx(batch / seconds * efficiency)
        assert 16 <= local <= 128

    def test_noisier_gradients_are_worth_larger_batches(self) -> None:
        quiet, noisy = told(var=0.1), told(var=1000.0)
        sizes = [
            np.prod(best_batch(*arrays_of(goodput), False, 4)[1:]) for goodput in (quiet, noisy)
        ]
        assert sizes[0] < sizes[1]

    def test_too_many_gpus_for_the_largest_batch_yield_nothing(self) -> None:
        table = goodputs(*arrays_of(told()), 129)
        assert table[1, 128] > 0
        assert table[1, 129] == 0

    @given(
        st.floats(0.01, 100),
        st.floats(0.01, 100),
        st.integers(1, 20),
        st.booleans(),
        st.integers(16, 200),
    )
    def test_compiled_and_plain_agree(
        self, sqr: float, var: float, gpus: int, spread: bool, most_local: int
    ) -> None:
        arrays = arrays_of(told(sqr, var, most_local))
        compiled = best_batch(*arrays, spread, gpus)
        with all_plain(functions):
            assert functions.best_batch(*arrays, spread, gpus) == pytest.approx(compiled)


class TestFit:
    def test_the_gradient_is_that_of_the_error(self) -> None:
        seen = np.array(
            [[1, 1, 64, 0.06, 0.061], [1, 4, 64, 0.06, 0.07], [2, 8, 128, 0.09, 0.13]]
        ).T
        at = np.array([0.01, 0.001, 0.02, 0.003, 0.01, 0.002, 1.5])
        _, slope = fit_error(at, seen)
        for i in range(7):
            up, down = at.copy(), at.copy()
            up[i] += 1e-7
            down[i] -= 1e-7
            rise = (fit_error(up, seen)[0] - fit_error(down, seen)[0]) / 2e-7
            assert slope[i] == pytest.approx(rise, rel=1e-4, abs=1e-6)
        assert plain(fit_error)(at, seen)[0] == pytest.approx(fit_error(at, seen)[0])

    def test_it_predicts_what_it_has_seen(self) -> None:
        seen: list[tuple[float, ...]] = []
        for nodes, gpus in [(1, 1), (1, 2), (1, 4), (2, 6), (2, 8), (4, 16)]:
            for local in (16, 32, 64, 128):
                compute, step = functions.step_seconds(
                    np.array(TRUE), nodes > 1, gpus, float(local)
                )
                seen.append((nodes, gpus, local, compute, step))
        steps = np.array(fitted(np.array(seen, dtype=float).T))
        for spans, count, share, _, measured in seen:
            predicted = functions.step_seconds(steps, spans > 1, int(count), share)[1]
            assert predicted == pytest.approx(measured, rel=0.05)

    def test_what_was_not_seen_is_believed_to_cost_nothing(self) -> None:
        one = fitted(np.array([[1.0, 1.0, 32.0, 0.42, 0.42]]).T)
        assert one.alpha_c == pytest.approx(0.21)
        assert max(one[2:6]) < 1e-7
        several = fitted(np.array([[1.0, 1.0, 32.0, 0.42, 0.42], [1.0, 4.0, 32.0, 0.42, 0.6]]).T)
        assert several.alpha_r > 1e-3
        assert several.alpha_n == pytest.approx(1.1 * several.alpha_r)

    @settings(max_examples=10)
    @given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 12)), min_size=1, max_size=6))
    def test_it_is_no_worse_than_scipy(self, placements: list[tuple[int, int]]) -> None:
        minimize = pytest.importorskip("scipy.optimize").minimize
        seen = []
        for nodes, more in placements:
            gpus, local = nodes + more, 16.0 + 8 * more
            compute, step = functions.step_seconds(np.array(TRUE), nodes > 1, gpus, local)
            seen.append([nodes, gpus, local, compute * (1 + 0.1 * (more % 3)), step])
        measured = np.ascontiguousarray(np.array(seen).T)
        start = np.array([0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001])
        lower, upper = np.array([1e-8] * 6 + [1.0]), np.array([1e6] * 6 + [10.0])
        ours = minimised(start, lower, upper, measured)
        bounds = list(zip(lower, upper, strict=True))
        theirs = minimize(fit_error, start, (measured,), "L-BFGS-B", jac=True, bounds=bounds)
        assert fit_error(ours, measured)[0] <= 1.1 * theirs.fun + 0.01
        assert ((lower <= ours * (1 + 1e-12)) & (ours <= upper * (1 + 1e-12))).all()

    def test_the_minimum_is_the_same_compiled_and_plain(self) -> None:
        seen = np.array([[1.0, 1.0, 32.0, 0.42, 0.42], [2.0, 8.0, 16.0, 0.25, 0.4]]).T.copy()
        start = np.array([0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001])
        bounds = np.array([1e-8] * 6 + [1.0]), np.array([1e6] * 6 + [10.0])
        compiled = fit_error(minimised(start, *bounds, seen), seen)[0]
        twin = fit_error(plain(minimised)(start, *bounds, seen), seen)[0]
        assert twin == pytest.approx(compiled, rel=1e-3, abs=1e-4)

    def test_before_anything_is_measured_the_smallest_batch_is_taken(self) -> None:
        assert Agent(application()).choice(1, 1).batch_size == 32
        assert Agent(application()).choice(2, 6).batch_size == 48


@st.composite
def problems(draw: st.DrawFn) -> AllocationProblem:
    """A few jobs on a few nodes, of two types at times; some run, some of these stay."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    jobs, nodes, kinds = int(rng.integers(1, 6)), int(rng.integers(1, 5)), int(rng.integers(1, 3))
    capacity = rng.integers(1, 5, nodes)
    node_type = rng.integers(0, kinds, nodes)
    least = rng.integers(1, 4, jobs)
    most = least + rng.integers(0, 6, jobs)
    pools = int(rng.integers(0, 3))
    problem = AllocationProblem(
        values=np.cumsum(rng.random((jobs, 2, int(capacity.sum()) + 10)), axis=2),
        base=np.zeros((jobs, nodes), dtype=np.int64),
        runs=np.zeros(jobs, dtype=np.bool_),
        capacity=capacity,
        allowed=rng.random((jobs, kinds))[:, node_type] < 0.8,
        node_type=node_type,
        least=least,
        most=most,
        fixed=np.zeros(jobs, dtype=np.bool_),
        pool=rng.integers(-1, pools, jobs),
        quota=rng.integers(1, 8, pools),
        factor=rng.random(jobs),
    )
    problem.values[:, :, 0] = 0.0
    base = rng.integers(0, 4, (jobs, nodes))
    runs = np.ones(jobs, dtype=np.bool_)
    repair(problem, base, runs, np.array([7]))
    fixed = np.arange(jobs) < rng.integers(0, 2)
    return problem._replace(base=base, runs=runs, fixed=fixed & runs)


def check(problem: AllocationProblem, one: Any) -> None:
    """Whether an allocation can be carried out."""
    gpus = one.sum(axis=1)
    assert (one >= 0).all()
    assert (one.sum(axis=0) <= problem.capacity).all()
    served = gpus > 0
    assert (gpus[served] >= problem.least[served]).all()
    assert (gpus[served] <= problem.most[served]).all()
    assert problem.allowed[one > 0].all()
    spread = (one > 0).sum(axis=1) > 1
    assert ((one[spread] > 0).sum(axis=0) <= 1).all()
    for row in one[served]:
        assert len(set(problem.node_type[row > 0].tolist())) == 1
    for pool, quota in enumerate(problem.quota):
        assert gpus[problem.pool == pool].sum() <= quota
    assert (one[problem.fixed] == problem.base[problem.fixed]).all()


class TestSearch:
    @settings(max_examples=40)
    @given(problems(), st.integers(0, 1000))
    def test_whatever_it_finds_can_be_carried_out(
        self, problem: AllocationProblem, seed: int
    ) -> None:
        found = search(problem, problem.base[None], 5, 5, 10, seed)
        for one in found:
            check(problem, one)

    @settings(max_examples=50)
    @given(problems(), st.integers(0, 1000))
    def test_the_best_comes_first_and_is_no_worse_than_staying(
        self, problem: AllocationProblem, seed: int
    ) -> None:
        found = search(problem, problem.base[None], 5, 5, 10, seed)
        fitness = [fitness_of(problem, one, one.any(axis=1))[0] for one in found]
        assert fitness[0] == max(fitness)
        assert fitness[0] >= fitness_of(problem, problem.base, problem.runs)[0]
        for one in found:
            all_rows = np.ones(len(one), dtype=np.bool_)
            assert fitness_of(problem, one, one.any(axis=1)) == fitness_of(problem, one, all_rows)

    @settings(max_examples=25)
    @given(problems(), st.integers(0, 1000))
    def test_compiled_and_plain_find_the_same(self, problem: AllocationProblem, seed: int) -> None:
        compiled = search(problem, problem.base[None], 2, 2, 4, seed)
        with all_plain(SEARCH):
            twin = SEARCH.search(problem, problem.base[None], 2, 2, 4, seed)
        assert np.array_equal(compiled, twin)

    def test_it_finds_the_best_of_a_small_problem(self) -> None:
        """Two jobs on two nodes of two GPUs, speed-ups in proportion: one node each."""
        values = np.tile(np.arange(5.0), (2, 2, 1))
        values[:, 1] *= 0.6  # what is spread over nodes is slower
        problem = AllocationProblem(
            values=values,
            base=np.zeros((2, 2), dtype=np.int64),
            runs=np.zeros(2, dtype=np.bool_),
            capacity=np.array([2, 2]),
            allowed=np.ones((2, 2), dtype=np.bool_),
            node_type=np.zeros(2, dtype=np.int64),
            least=np.ones(2, dtype=np.int64),
            most=np.full(2, 4),
            fixed=np.zeros(2, dtype=np.bool_),
            pool=np.full(2, -1),
            quota=np.zeros(0, dtype=np.int64),
            factor=np.ones(2),
        )
        best = search(problem, problem.base[None], 20, 20, 20, 0)[0]
        assert sorted(best.tolist()) == [[0, 2], [2, 0]]


def under_pollux(*jobs: Job, cluster: str = "2x4", policy: str = "pollux", **more: Any) -> Run:
    more.setdefault("placement", "first-free")
    return happen(Scenario.of(parse_cluster(cluster), jobs, policy=policy, **more))


def reports(run: Run) -> list[TrainingReported]:
    return [
        event
        for entry in run.journal.entries
        for event in entry.events
        if isinstance(event, TrainingReported)
    ]


@pytest.mark.usefixtures("scipy_there")
class TestPolicy:
    @pytest.fixture
    def scipy_there(self) -> None:
        pytest.importorskip("scipy")

    def test_a_job_at_most_doubles_its_reach(self) -> None:
        job = training_job(0, 0.0, most=8.0, longer=50.0)
        run = under_pollux(job, overheads=Overheads(start=3, restore=3))
        given = [gpus for entry in run.journal.entries for gpus in entry.decision.gpus.tolist()]
        assert given[0] == 1.0
        assert max(given) > 2.0
        for count in range(1, len(given)):
            assert given[count] <= 2 * max(given[:count])

    def test_jobs_tell_their_goodput_and_only_to_pollux(self) -> None:
        jobs = [training_job(n, 5.0 * n, most=8.0) for n in range(2)]
        assert all(report.goodput is not None for report in reports(under_pollux(*jobs)))
        assert all(r.goodput is None for r in reports(under_pollux(*jobs, policy="optimus")))

    def test_co_adapted_jobs_are_done_sooner(self) -> None:
        """With the batch size free, the same job on the same GPU ends before its user's choice does."""
        free, fixed = (
            training_job(0, 0.0, batch_size=256),
            training_job(0, 0.0, batch_size=256, tunable=False),
        )
        ends = [under_pollux(job, cluster="1x1").outcomes.finish[0] for job in (free, fixed)]
        assert ends[0] < ends[1]

    def test_no_two_jobs_that_span_nodes_meet_on_one(self) -> None:
        jobs = [training_job(n, 20.0 * n, most=8.0, longer=50.0) for n in range(4)]
        run = under_pollux(*jobs, cluster="4x2")
        holding: dict[int, set[int]] = {}
        spread = 0
        for entry in run.journal.entries:
            decision = entry.decision
            for row, number in enumerate(decision.job.tolist()):
                holding[number] = {int(slot) // 2 for slot in decision.slots_of(row)}
            gone = {
                getattr(e, "number", -1) for e in entry.events if "Finished" in type(e).__name__
            }
            holding = {n: nodes for n, nodes in holding.items() if n not in gone}
            wide = [nodes for nodes in holding.values() if len(nodes) > 1]
            spread += len(wide)
            assert sum(map(len, wide)) == len(set().union(*wide))
        assert spread > 0

    def test_jobs_without_tables_share_by_throughput(self) -> None:
        jobs = [linear_job(n, 0.0, 2.0, 200.0, min_gpus=1.0, max_gpus=8.0) for n in range(2)]
        run = under_pollux(*jobs, cluster="1x8")
        assert run.outcomes.finish.max() < 2 * 400 / 8 + 300

    def test_the_seed_decides(self) -> None:
        jobs = [training_job(n, 10.0 * n, most=8.0) for n in range(3)]
        same = [under_pollux(*jobs, policy="pollux:seed=1").journal_bytes for _ in range(2)]
        assert same[0] == same[1]
