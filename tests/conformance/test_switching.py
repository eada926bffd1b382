"""What a scheduler that switches compositions while it runs still promises."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.core.events import Event, Recomposed
from volvelle.core.journal import read_journal, replay
from volvelle.core.parts import admissions
from volvelle.core.scheduler import Scheduler
from volvelle.core.systems import brought
from volvelle.metrics.recorder import outcomes_of
from volvelle.model.cluster import parse_cluster
from volvelle.simulate.run import simulate
from volvelle.simulate.synthesis import Synthesis
from volvelle.simulate.world import World
from volvelle.testing.audit import audited
from volvelle.testing.scenario import Scenario, happen, linear_job, state_of
from volvelle.testing.strategies import EVERYTHING, scenarios

CHOICES = Synthesis(
    policies=("fifo", "srtf", "las:round=30", "tiresias:limits=10"),
    admissions=("accept-all", "backlog:factor=1"),
    every=40.0,
)
TWO = Synthesis(
    policies=("fifo", "las:round=30"),
    admissions=("accept-all", "backlog:factor=1"),
    objectives=("jct:mean", "responsiveness:max"),
    every=25.0,
)
every_synthesis = pytest.mark.parametrize("synthesis", [CHOICES, TWO], ids=["jct", "both"])


def under(scenario: Scenario, synthesis: Synthesis) -> Scenario:
    return replace(scenario, setting=replace(scenario.setting, synthesis=synthesis))


@every_synthesis
@settings(max_examples=10)
@given(scenario=scenarios(EVERYTHING))
def test_nothing_is_given_twice_and_all_work_is_done(
    synthesis: Synthesis, scenario: Scenario
) -> None:
    scenario = under(scenario, synthesis)
    audited(scenario)


@every_synthesis
@settings(max_examples=10)
@given(scenario=scenarios(EVERYTHING))
def test_the_journal_is_the_same_again_and_its_replay_needs_no_looking_ahead(
    synthesis: Synthesis, scenario: Scenario, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scenario = under(scenario, synthesis)
    run = happen(scenario)
    assert happen(scenario).journal_bytes == run.journal_bytes
    path = tmp_path_factory.mktemp("journal") / "run.jsonl"
    run.journal.write(path)
    header, entries = read_journal(path)
    assert state_of(replay(header, entries)) == state_of(run.scheduler)
    assert outcomes_of(*read_journal(path)).choices == run.outcomes.choices


class Roulette:
    """Switches to any policy and admission at all, again and again."""

    every = 30.0

    def __init__(self, names: list[tuple[str, str]]) -> None:
        self._names = names

    def choose(self, scheduler: Scheduler, now: float) -> list[Event]:
        policy, admission = self._names[int(now // self.every) % len(self._names)]
        return [Recomposed(now, policy, admission)]


@settings(max_examples=40)
@given(
    scenario=scenarios(EVERYTHING),
    chosen=st.lists(
        st.tuples(
            st.sampled_from(["fifo", "srtf", "las", "tiresias", "max-min", "easy", "afs-l", "drf"]),
            st.sampled_from(list(admissions.all())),
        ),
        min_size=2,
        max_size=4,
    ),
)
def test_any_switch_at_any_time_keeps_the_books(
    scenario: Scenario, chosen: list[tuple[str, str]]
) -> None:
    audited(scenario, Roulette(chosen))


def test_looking_ahead_in_several_processes_chooses_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = [linear_job(n, 5.0 * n, 1.0 + n % 2, 20.0 + 37.0 * (n % 5)) for n in range(20)]
    scenario = under(Scenario.of(parse_cluster("1x4"), jobs), CHOICES)
    alone = simulate(scenario.workload, scenario.setting, journal=True)
    monkeypatch.setattr("volvelle.systems.blox.synthesizer._PAYS_SECONDS", 0.0)
    together = simulate(scenario.workload, scenario.setting, journal=True, workers=2)
    assert alone.journal is not None
    assert together.journal is not None
    assert alone.journal.entries == together.journal.entries
    assert alone.outcomes.choices == together.outcomes.choices
    assert alone.outcomes.choices


@settings(max_examples=10)
@given(scenarios(EVERYTHING))
def test_looking_ahead_leaves_the_scheduler_alone(scenario: Scenario) -> None:
    chooser = brought("switchers", "synthesizer")(CHOICES)

    def look(world: World) -> None:
        before = state_of(world.scheduler)
        chooser.choose(world.scheduler, world.now + 1.0)
        assert state_of(world.scheduler) == before

    happen(scenario, on_moment=look)
