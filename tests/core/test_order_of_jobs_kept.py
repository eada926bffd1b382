"""Running jobs by their keys, and waiting ones by class: the same as sorting them, or looking at all."""

from hypothesis import given
from hypothesis import strategies as st

from volvelle.core.forward.classes import (
    before,
    class_of,
    count_left,
    first_waiting,
    no_classes,
    touch,
    type_for,
)
from volvelle.core.forward.running import list_from, list_running, put_back, rank, rank_no_more
from volvelle.core.forward.waiting import wait, wait_no_more
from volvelle.core.state import BLOCKS, CLASSES, EVERY_POOL, INFINITY, RANKED, Rules, State

KEYS = st.integers(0, 5).map(float)
STEPS = st.lists(st.tuples(st.integers(0, 149), KEYS), max_size=400)


def with_rows(rows: int) -> State:
    """A state with room for so many jobs, numbered by their rows."""
    state = State()
    while len(state.jobs) < rows:
        state.grow_rows()
    for row in range(rows):
        state.jobs.number[row] = float(row)
    return state


@given(STEPS, KEYS)
def test_running_jobs_are_sorted(steps: list[tuple[int, float]], later: float) -> None:
    state = with_rows(150)
    there: dict[int, float] = {}
    for row, key in [(row, 0.0) for row in range(130)] + steps:
        if row in there:
            rank_no_more(state, row)
            del there[row]
        else:
            state.jobs.key[row] = there[row] = key
            rank(state, row)
    expected = sorted(there, key=lambda row: (there[row], row))
    list_running(state)
    assert state.ranked[: state.count[RANKED]] == expected
    list_from(state, later)
    taken = state.ranked[: state.count[RANKED]]
    assert taken == [row for row in expected if there[row] >= later]
    for i, row in enumerate(taken):
        state.bound[i] = state.jobs.key[row] = there[row] = float(i % 2)
    order = sorted(range(len(taken)), key=lambda i: (state.bound[i], taken[i]))
    state.ranked[: len(taken)] = [taken[i] for i in order]
    state.bound[: len(taken)] = [there[taken[i]] for i in order]
    put_back(state, later)
    list_running(state)
    assert state.ranked[: state.count[RANKED]] == sorted(there, key=lambda row: (there[row], row))
    for row in there:
        rank_no_more(state, row)
    assert state.count[BLOCKS] == 0


@given(STEPS, st.lists(st.integers(0, 4), min_size=3, max_size=3), st.integers(0, 6), st.data())
def test_the_first_that_waits_is_the_first_of_all(
    steps: list[tuple[int, float]], left: list[int], free: int, data: st.DataObject
) -> None:
    state, rules = with_rows(150), Rules(elastic=False)
    state.pools.grow(3)
    state.types.grow(2)
    no_classes(state)
    state.types.free[:] = [float(free), float(data.draw(st.integers(0, 6)))]
    for row in range(150):
        state.jobs.gpus[row] = float(1 + row % 5)
        state.jobs.types[row] = float(1 + row % 3)
        state.jobs.pool[row] = float(row % 4 - 1)
        state.jobs.kind[row] = class_of(state, rules, row)
        if state.count[CLASSES] == len(state.classes):
            state.grow_rows()
    waiting: set[int] = set()
    for place, (row, key) in enumerate(steps):
        if row in waiting:
            wait_no_more(state, row)
            waiting.remove(row)
        else:
            state.jobs.key[row] = key
            wait(state, row)
            waiting.add(row)
        if place % 10 == 0:
            pool = place // 10 % 3
            state.pools.quota[pool] = float(left[pool])
            touch(state, pool)
            count_left(state)

    def first(rows: set[int]) -> int:
        best = -1
        for row in rows:
            best = row if best < 0 or before(state.jobs, row, best) else best
        return best

    fits = {
        row
        for row in waiting
        if type_for(
            state, int(state.jobs.types[row]), state.jobs.gpus[row], int(state.jobs.pool[row])
        )
        >= 0
    }
    assert first_waiting(state, EVERY_POOL, False) == first(waiting)
    assert first_waiting(state, EVERY_POOL, True) == first(fits)
    for pool in range(3):
        of_pool = {row for row in waiting if state.jobs.pool[row] == pool}
        assert first_waiting(state, pool, False) == first(of_pool)
        assert first_waiting(state, pool, True) == first(of_pool & fits)
    assert all(
        state.tournament.need[2 * k] < INFINITY for row in fits for k in [state.jobs.kind[row]]
    )


@given(st.sets(st.integers(0, 63), min_size=1), st.integers(0, 63))
def test_a_type_is_found_among_sixty_four(wished: set[int], free: int) -> None:
    state = State()
    state.types.grow(64)
    state.types.free[free] = 1.0
    types = sum(1 << each for each in wished)
    for bits in (types, types - (1 << 64) if types >= 1 << 63 else types):  # as machine code has it
        assert type_for(state, bits, 1.0, -1) == (free if free in wished else -1)


def test_room_for_logged_gpus_grows_with_the_log() -> None:
    state = State()
    state.slots.grow(10_000)
    for _ in range(8):
        state.grow_log()
        assert len(state.slots_log) == 4 * len(state.slots) + 2 * len(state.events)
