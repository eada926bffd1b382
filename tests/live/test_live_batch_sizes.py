"""Requests of jobs that change their batch size."""

from typing import Any

import pytest
from pydantic import ValidationError

from volvelle.live.job_request import JobRequest
from volvelle.model.throughput import Linear, PerBatchSize, PerType

EPOCHS, EPOCH_SAMPLES = 60, 100
RATES = {32: 100.0, 64: 200.0}
"""Samples per second: an epoch takes a second, and half a second once the job has doubled its batch size."""

DOUBLING: dict[str, Any] = {
    "rule": "gns",
    "sizes": [32, 64],
    "epochs": EPOCHS,
    "epoch_samples": EPOCH_SAMPLES,
    "samples_per_second": RATES,
}


def request(seconds: float, gpus: int = 1, **more: Any) -> JobRequest:
    return JobRequest.model_validate(
        {"command": ["sleep", str(seconds)], "gpus": gpus, "estimate": seconds, **more}
    )


def test_rates_are_epochs_per_second_of_the_gpus_asked_for() -> None:
    made = request(1, 2, batch_sizes=DOUBLING).spec(0, "ada", 0.0)
    assert made.throughput == PerBatchSize({32: Linear(0.5), 64: Linear(1.0)}, 32)


def test_rates_may_differ_by_gpu_type() -> None:
    rates = {32: {"a100": 100.0, "v100": 50.0}, 64: {"a100": 200.0, "v100": 75.0}}
    made = request(1, batch_sizes=DOUBLING | {"samples_per_second": rates}).spec(0, "ada", 0.0)
    assert made.throughput == PerBatchSize(
        {
            32: PerType({"a100": Linear(1.0), "v100": Linear(0.5)}),
            64: PerType({"a100": Linear(2.0), "v100": Linear(0.75)}),
        },
        32,
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"samples_per_second": {32: 100}}, "has no batch size 64, to which gns may come"),
        ({"sizes": [64, 32]}, "the smaller one first"),
        ({"samples_per_second": {32: 100, 64: 0}}, "greater than or equal to"),
        ({"epochs": 0}, "greater than 0"),
        ({"rule": "schedule"}, "epoch of every size"),
    ],
)
def test_a_request_that_says_too_little_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        request(1, batch_sizes=DOUBLING | change)


def test_a_request_reads_back_as_it_was() -> None:
    made = request(1, batch_sizes=DOUBLING | {"rule": "accordion", "regimes": 5})
    assert JobRequest.model_validate(made.as_json()) == made
