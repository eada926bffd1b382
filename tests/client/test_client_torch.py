"""PyTorch's DataLoader, and DistributedDataParallel under torchrun over gloo."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attempts import Attempts
from waiting import until

from volvelle.client.control_block import (
    EXIT_AT,
    ITERATIONS,
    OWN_BATCH_SIZE,
    PREEMPTED,
    REVOKED,
    SAVED_ITERATIONS,
    TOTAL_EPOCHS,
    TOTAL_ITERATIONS,
)
from volvelle.client.gns import GradientNoise

pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "train_torch.py"
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
EPOCHS = 2
ITERATIONS_IN_ALL = EPOCHS * 40


@pytest.fixture
def trained(tmp_path: Path) -> Iterator[Callable[..., Attempts]]:
    """Jobs of the example that trains with PyTorch, each in a folder of its own."""
    jobs: list[Attempts] = []

    def begin(*launcher: str) -> Attempts:
        folder = tmp_path / f"job-{len(jobs)}"
        folder.mkdir()
        jobs.append(Attempts(folder, EXAMPLE, launcher))
        return jobs[-1]

    yield begin
    for job in jobs:
        job.kill_all()


def revoked_once(job: Attempts) -> Attempts:
    """``job``, revoked in its second epoch and resumed."""
    process = job.start(str(EPOCHS), "0.05")
    block = job.block()
    until(lambda: block[ITERATIONS] > 50 or process.poll() is not None, patience_seconds=90)
    block[REVOKED] = 1
    assert process.wait(60) == 0, job.output()
    assert block[PREEMPTED] == 1
    assert (
        50
        < block[EXIT_AT]
        == block[SAVED_ITERATIONS]
        < block[TOTAL_ITERATIONS]
        == ITERATIONS_IN_ALL
    )
    assert job.start(str(EPOCHS)).wait(90) == 0, job.output()
    return job


@pytest.mark.parametrize(
    "launcher",
    [pytest.param((), id="alone", marks=pytest.mark.slow), pytest.param(TORCHRUN, id="torchrun")],
)
def test_revoked_and_resumed_the_loss_curve_is_that_of_an_uninterrupted_run(
    trained: Callable[..., Attempts], launcher: tuple[str, ...]
) -> None:
    uninterrupted = trained(*launcher)
    process = uninterrupted.start(str(EPOCHS))
    interrupted = revoked_once(trained(*launcher))
    assert process.wait(90) == 0, uninterrupted.output()
    curve = uninterrupted.reported("loss")
    assert list(curve) == list(range(1, ITERATIONS_IN_ALL + 1))
    assert interrupted.reported("loss") == curve
    assert "UserWarning" not in interrupted.output()


ADAPTIVE_EPOCHS = 8


def adaptive(folder: Path, revoke_after: int = 0) -> Attempts:
    """The example that follows Accordion's rule, revoked after so many iterations and resumed."""
    folder.mkdir()
    job = Attempts(folder, EXAMPLES / "train_adaptive_torch.py")
    process = job.start(str(ADAPTIVE_EPOCHS), "0.02" if revoke_after else "0")
    if revoke_after:
        block = job.block()
        until(
            lambda: block[ITERATIONS] > revoke_after or process.poll() is not None,
            patience_seconds=90,
        )
        block[REVOKED] = 1
        assert process.wait(60) == 0, job.output()
        assert block[PREEMPTED] == 1
        process = job.start(str(ADAPTIVE_EPOCHS))
    assert process.wait(90) == 0, job.output()
    return job


def test_a_model_whose_batch_size_follows_accordion_learns_the_same_when_preempted(
    tmp_path: Path,
) -> None:
    whole = adaptive(tmp_path / "whole")
    sizes = list(whole.reported("batch_size").values())
    assert set(sizes) == {32.0, 128.0}, "gradients change fast, and then they do not"
    assert sum(sizes) == ADAPTIVE_EPOCHS * 1280
    losses = whole.reported("loss")
    assert sum(list(losses.values())[-10:]) < sum(list(losses.values())[:10]) / 2
    block = whole.block()
    assert block[OWN_BATCH_SIZE] == sizes[-1]
    assert block[TOTAL_EPOCHS] == ADAPTIVE_EPOCHS
    parts = adaptive(tmp_path / "revoked", revoke_after=85)
    assert parts.reported("loss") == losses
    assert list(parts.reported("batch_size").values()) == sizes


def test_a_model_whose_batch_size_follows_the_noise_of_its_gradients_doubles_as_it_converges() -> (
    None
):
    """Two weights and a bias that come to fit noisy samples: gradients get smaller, their noise does not."""
    import torch

    def squared(inputs: torch.Tensor, targets: torch.Tensor) -> float:
        model.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        return sum(float((one.grad**2).sum()) for one in model.parameters() if one.grad is not None)

    torch.manual_seed(3)
    inputs = torch.randn(1280, 2)
    targets = inputs @ torch.tensor([[2.0], [-1.0]]) + 0.5 * torch.randn(1280, 1)
    model = torch.nn.Linear(2, 1)
    rule = GradientNoise(first=32, limit=128, decay=0.98)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    sizes = []
    for _ in range(12):
        size = rule.batch_size
        sizes.append(size)
        for some in torch.randperm(1280).split(size):
            half = some[: size // 2]
            small = squared(inputs[half], targets[half])
            rule.observe(small, len(half), squared(inputs[some], targets[some]), size)
            optimizer.step()
        rule.epoch_done()
    assert sizes[:2] == [32, 32], "gradients are still large"
    assert sizes[-1] > 32
    assert sizes == sorted(sizes)
