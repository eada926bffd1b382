"""A plan: whom it gives what, when, and in another window."""

import copy

import numpy as np
import pytest

from volvelle.plan.packing import in_turn
from volvelle.plan.plan import Plan, Window

WINDOW = Window(100.0, 10.0, 3)


def plan() -> Plan:
    gpus = np.array([[2.0, 2.0, 0.0], [0.0, 1.0, 1.0]])
    return Plan(WINDOW, np.array([5, 3]), gpus)


def test_slots_are_half_open_and_a_time_that_is_off_by_rounding_is_in_the_one_meant() -> None:
    assert [WINDOW.slot(when) for when in (99.9, 100.0, 109.9, 110.0, 130.0)] == [-1, 0, 0, 1, 3]
    third = Window(0.0, 0.1, 100)
    assert [third.slot(third.begin(slot)) for slot in range(100)] == list(range(100))
    assert WINDOW.end == 130.0
    assert [plan().covers(when) for when in (99.0, 100.0, 129.0, 130.0)] == [
        False,
        True,
        True,
        False,
    ]


def test_jobs_are_found_by_number_and_others_hold_nothing() -> None:
    one = plan()
    assert one.held_at(1).tolist() == [2.0, 1.0]
    assert one.held_by(np.array([3, 4, 5]), 1).tolist() == [1.0, 0.0, 2.0]
    assert one.rows_of(np.array([3, 4, 5])).tolist() == [1, -1, 0]
    assert Plan(WINDOW, np.zeros(0, dtype=np.int64), np.zeros((0, 3))).held_by(
        np.array([3]), 0
    ).tolist() == [0.0]
    with pytest.raises(IndexError, match="slot 3 of a plan of 3 slots"):
        one.held_at(3)


def test_in_another_window_it_says_what_it_says_of_the_same_times() -> None:
    later = plan().over(Window(110.0, 10.0, 4), np.array([3, 9, 5]))
    assert later.tolist() == [[1.0, 1.0, 0.0, 0.0], [0.0] * 4, [2.0, 0.0, 0.0, 0.0]]
    earlier = plan().over(Window(80.0, 10.0, 4), np.array([5]))
    assert earlier.tolist() == [[0.0, 0.0, 2.0, 2.0]]
    assert not plan().over(Window(130.0, 10.0, 2), np.array([5])).any()
    for other in (Window(105.0, 10.0, 3), Window(100.0, 5.0, 3)):
        with pytest.raises(ValueError, match=r"the slots of .* are not those of"):
            plan().over(other, np.array([5]))


def test_it_knows_when_somebody_holds_something_else() -> None:
    assert [plan().next_change(slot) for slot in range(3)] == [1, 2, 3]
    still = Plan(WINDOW, np.array([1]), np.ones((1, 3)))
    assert still.next_change(0) == 3


def test_a_plan_by_cells_names_types_and_changes_with_them() -> None:
    """A slot has a cell for each of two types; the first job changes its type, then the second begins."""
    held = np.array([[1, 0, 0, 1, 0, 1], [0, 0, 0, 0, 1, 0]], dtype=np.bool_)
    typed = Plan.of_cells(WINDOW, np.array([5, 3]), np.array([2.0, 1.0]), held)
    assert typed.gpus.tolist() == [[2.0, 2.0, 2.0], [0.0, 0.0, 1.0]]
    assert [typed.next_change(slot) for slot in range(3)] == [1, 2, 3]
    assert typed.types_by(np.array([3, 4, 5]), 2).tolist() == [0, -1, 1]
    assert typed.rounds_by_type(2).tolist() == [[1, 2], [1, 0]]
    with pytest.raises(ValueError, match="has types of"):
        Plan(WINDOW, typed.number, typed.gpus, np.zeros((2, 2), dtype=np.int64))


def test_more_than_there_is_names_the_slot() -> None:
    plan().check(3.0)
    plan().check(np.array([2.0, 3.0, 1.0]))
    with pytest.raises(ValueError, match="slot 1 of a plan has 3 of 2 GPUs"):
        plan().check(2.0)


def test_copies_share_what_nobody_can_change() -> None:
    one = plan()
    assert copy.deepcopy({"plan": one})["plan"] is one
    with pytest.raises(ValueError, match="read-only"):
        one.gpus[0, 0] = 1.0


@pytest.mark.parametrize(
    ("number", "gpus", "said"),
    [
        (np.array([1]), np.zeros((1, 2)), "1 jobs and 3 slots needs as many"),
        (np.array([1]), np.full((1, 3), -1.0), "fewer than no GPUs"),
        (np.array([1, 1]), np.zeros((2, 3)), "twice"),
    ],
)
def test_what_is_no_plan_is_an_error(number: object, gpus: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Plan(WINDOW, number, gpus)  # type: ignore[arg-type]


def test_who_has_no_slot_to_miss_goes_before_who_is_first_in_order() -> None:
    """Two jobs on one GPU, the first with one round; the second misses one if it does not have all slots."""
    nowhere = np.array([-1, -1])
    for rounds, slots, first in ((2, 2, [1]), (2, 3, [0])):
        counts = np.array([[1], [rounds]])
        held = in_turn(np.array([0, 1]), np.ones(2), counts, slots, np.ones(1), nowhere)
        assert np.flatnonzero(held[0]).tolist() == first
