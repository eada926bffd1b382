"""Machine code that Python calls with arrays does what the plain twin does, for every kind of argument."""

import resource
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from volvelle.core.compiled import compiled, compiled_later
from volvelle.core.machine_code import arrays, files
from volvelle.core.machine_code.kinds import NoCompiler
from volvelle.model.arrays import scalar_type

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@compiled
def everything(
    matrix: Floats, rows: Ints, chosen: Bools, factor: float, first: int, descending: bool
) -> tuple[Floats, Ints, float, int]:
    found = np.zeros(len(rows))
    for i in range(first, len(rows)):
        for column in range(matrix.shape[1]):
            if chosen[column]:
                found[i] += factor * matrix[rows[i], column]
    matrix[0, 0] = -1.0
    order = np.argsort(-found if descending else found, kind="mergesort")
    return found, order, found.sum(), len(rows)


@compiled
def halves(numbers: Floats) -> Floats:
    return numbers / 2.0


@compiled
def any_negative(numbers: Floats, otherwise: bool) -> bool:
    for i in range(len(numbers)):
        if numbers[i] < 0.0:
            return True
    return otherwise


class Problem(NamedTuple):
    sizes: Floats
    places: Ints


@compiled
def at_places(problem: Problem, more: float) -> Floats:
    return problem.sizes[problem.places] + more


def given(order: Any = "C") -> tuple[Any, ...]:
    matrix = np.array(np.arange(12.0).reshape(4, 3), order=order)
    return matrix, np.array([2, 0, 3]), np.array([True, False, True]), 1.5, 1, True


@pytest.mark.parametrize("order", ["C", "F"])
def test_numbers_and_arrays_go_in_and_come_out(order: str) -> None:
    there, here = given(order), given(order)
    for found, expected in zip(everything(*there), everything.py_func(*here), strict=True):
        assert type(found) in (type(expected), float, int)
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(there[0], here[0])


def test_arguments_may_have_names_and_be_numbers_of_numpy() -> None:
    matrix, rows, chosen, *_ = given()
    names_of_numpy: dict[str, Any] = {
        "descending": np.bool_(True),
        "first": np.int64(1),
        "factor": np.float64(1.5),
    }
    found = everything(matrix, rows, chosen, **names_of_numpy)
    np.testing.assert_array_equal(found[0], everything.py_func(*given())[0])


def test_one_loop_takes_arrays_of_several_shapes_and_orders_one_after_the_other() -> None:
    every = np.arange(24.0).reshape(2, 3, 4)
    for numbers in (every, every[0], every[0, 0], every[:, 1], every.T, every[1, ::-2], every[:0]):
        np.testing.assert_array_equal(halves(numbers), numbers / 2.0)
        assert halves(numbers).flags.writeable


def test_truth_comes_out_as_truth() -> None:
    assert any_negative(np.array([1.0, -1.0]), False) is True
    assert any_negative(np.array([1.0]), False) is False
    assert any_negative(np.array([1.0]), True) is True


def test_a_named_tuple_of_arrays_goes_in() -> None:
    problem = Problem(np.array([1.0, 2.0, 3.0]), np.array([2, 0]))
    np.testing.assert_array_equal(at_places(problem, 0.5), [3.5, 1.5])


@pytest.mark.parametrize(
    "wrong", [[1.0], np.arange(3), np.zeros(3, np.float32), np.zeros(3, ">f8"), None]
)
def test_what_is_no_such_array_is_refused_by_name(wrong: Any) -> None:
    halves(np.zeros(2))
    with pytest.raises(TypeError, match="halves takes an array of float64"):
        halves(wrong)


def test_memory_of_results_is_let_go() -> None:
    numbers = np.zeros(1 << 20)
    halves(numbers)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(50):
        halves(numbers)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_without_a_compiler_a_loop_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(*_: Any) -> Any:
        raise NoCompiler("Numba is not installed")

    monkeypatch.setattr(arrays, "loaded", loaded)

    @compiled
    def doubled(numbers: Floats) -> Floats:
        return numbers * 2.0

    np.testing.assert_array_equal(doubled(np.arange(3.0)), [0.0, 2.0, 4.0])


@pytest.mark.parametrize(("seconds", "first"), [(1000.0, 0), (1e-12, 1), (0.0, 1)])
def test_a_loop_that_is_compiled_later_is_interpreted_until_that_costs_as_much(
    seconds: float, first: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(files.FOLDER, str(tmp_path))
    monkeypatch.setattr(arrays, "INTERPRETED_SECONDS", seconds)

    @compiled_later
    def fifths(numbers: Floats) -> Floats:
        return numbers / 5.0

    for kept in (0 if seconds else 1, first):  # the first call is interpreted
        np.testing.assert_array_equal(fifths(np.arange(3.0)), np.arange(3.0) / 5.0)
        assert len(list(tmp_path.iterdir())) == kept


def test_a_loop_that_is_compiled_later_is_compiled_at_once_for_many_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(files.FOLDER, str(tmp_path))
    monkeypatch.setattr(arrays, "INTERPRETED_SECONDS", 1000.0)

    @compiled_later
    def sixths(numbers: Floats) -> Floats:
        return numbers / 6.0

    for many, kept in ((3, 0), (arrays.INTERPRETED_NUMBERS + 1, 1)):
        np.testing.assert_array_equal(sixths(np.ones(many)), np.ones(many) / 6.0)
        assert len(list(tmp_path.iterdir())) == kept


@pytest.mark.parametrize("annotation", [Floats, np.dtype[np.float64], list[np.float64]])
def test_the_type_of_elements_is_found_whether_numpy_names_a_dtype_or_not(annotation: Any) -> None:
    assert scalar_type(annotation) is np.float64
