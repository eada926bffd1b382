"""Whether jobs come to a pool: features of the past alone, a model that is kept, errors with their mend."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volvelle.model.problems import Problem
from volvelle.systems.anticipatory.arrivals import ArrivalModel, QuantumSamples, record
from volvelle.systems.anticipatory.past import FEATURES, Past, arrive, end

QUANTA = (300.0, 3600.0)

TIMES = st.lists(st.floats(0.0, 40_000.0), min_size=2, max_size=25).map(sorted)


def columns(times: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    count = np.arange(len(times))
    return np.array(times), 1.0 + count % 3, 100.0 + 977.0 * (count % 7), count % 2


@settings(max_examples=60, deadline=None)
@given(TIMES, TIMES, st.floats(1000.0, 39_000.0))
def test_no_feature_looks_ahead(times: list[float], others: list[float], now: float) -> None:
    """Another future, after ``now``, changes nothing that is known of the moments up to then."""
    shared = [0.0, *(time for time in times if time <= now)]
    ends = [39_500.0, 39_999.0]  # both futures are recorded to the same end
    found = [
        record(*columns([*shared, *sorted(time for time in future if time > now), *ends]), QUANTA)
        for future in (times, others)
    ]
    for quantum in range(len(QUANTA)):
        one, other = (np.stack(each.features[quantum]) for each in found)
        moments = 300.0 * np.arange(len(one))
        known = moments <= now
        assert known.any()
        np.testing.assert_array_equal(one[known], other[known])


def test_features_by_hand() -> None:
    past = Past.of(2, 0.0, 5)
    for time in (0.0, 3500.0, 6900.0, 7200.0, 9000.0):  # the last is yet to come
        arrive(past, 0, time, 2.0)
    end(past, 0, 7100.0, 1)
    found = past.features(
        7200.0, np.array(QUANTA), np.array([0, 0, 1]), np.array([100.0, 9e3, 1.0])
    )
    named = dict(zip(FEATURES, found[0, 0].tolist(), strict=True))
    assert named["new 1 h ago"] == 0  # none in (3600, 3900]
    assert named["new 2 h ago"] == 0  # (0, 300]: the job at 0 was before
    assert named["new in 1 quanta"] == 1  # (6900, 7200]
    assert named["new in 10 quanta"] == 2
    assert named["new in 100 quanta"] == 4
    assert named["ended in 1 quanta"] == 1
    assert (named["to end within the quantum"], named["to end later"]) == (1, 1)
    assert found[0, 1].tolist() == [0.0] * 12 + [1.0, 0.0]
    hour = dict(zip(FEATURES, found[1, 0].tolist(), strict=True))
    assert hour["new 1 h ago"] == 2  # (3600, 7200]: no further than now


def test_recent_rates_and_loads() -> None:
    past = Past.of(1, 0.0, 5)
    for time, gpus in ((10.0, 4.0), (20.0, 3.0), (250.0, 1.0)):
        arrive(past, 0, time, gpus)
    quanta = np.array([100.0])
    rates, most = past.recent(50.0, quanta, 5)
    assert (rates.item(), most.item()) == (1.0, np.inf)  # not even one is known
    rates, most = past.recent(400.0, quanta, 5)
    assert (rates.item(), most.item()) == (0.5, 7.0)
    assert past.recent(400.0, quanta, 2)[1].item() == 1.0  # forgotten


def every_hour() -> QuantumSamples:
    times = np.sort(np.concatenate([3600.0 * np.arange(400), 3600.0 * np.arange(400) + 10.0]))
    return record(times, np.ones(800), np.full(800, 5.0), np.zeros(800, dtype=np.int64), (300.0,))


def test_a_model_learns_what_repeats_and_is_the_same_when_read(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    samples = every_hour()
    model = ArrivalModel.train(samples, (300.0,))
    model.save(tmp_path / "model.json")
    again = ArrivalModel.load(tmp_path / "model.json")
    features = np.stack(samples.features[0])[:, 0]
    came = np.concatenate(samples.came[0])
    chances = model.chances(features[None])[0]
    assert ((chances > 0.5) == came).mean() > 0.95
    np.testing.assert_array_equal(again.chances(features[None])[0], chances)
    blind = ArrivalModel.train(samples, (300.0,), only=[13])
    assert ((blind.chances(features[None])[0] > 0.5) == came).mean() < 0.95


def untrained() -> ArrivalModel:
    """A quiet past needs no trees."""
    samples = QuantumSamples.of(1)
    samples.add(0, np.zeros((1, len(FEATURES))), np.array([False]))
    return ArrivalModel.train(samples, (300.0,))


def test_a_model_that_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    path = tmp_path / "model.json"
    with pytest.raises(Problem, match="no model of arrivals at"):
        ArrivalModel.load(path)
    path.write_text("[]")
    with pytest.raises(Problem, match="is no model"):
        ArrivalModel.load(path)
    untrained().save(path)
    good = json.loads(path.read_text())
    for change, words in (
        ({"arrivals": 99}, "is of version 99"),
        ({"features": ["moon"]}, "goes by other features"),
        ({"quanta": [1.0, 2.0]}, "is damaged"),
        ({"trees": [{**good["trees"][0], "roots": [7]}]}, "is damaged"),
        ({"trees": 3}, "is no model"),
    ):
        path.write_text(json.dumps(good | change))
        with pytest.raises(Problem, match=words) as told:
            ArrivalModel.load(path)
        assert "train-arrivals" in told.value.mend


def test_without_lightgbm_training_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(Problem, match="needs LightGBM") as told:
        ArrivalModel.train(every_hour(), (300.0,))
    assert "-e '.[arrivals]'" in told.value.mend


def test_a_past_too_short_to_learn_from_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lightgbm")
    with pytest.raises(Problem, match="nothing is known of what came within 43200 s"):
        ArrivalModel.train(QuantumSamples.of(1), (43200.0,))
