"""Rules of batch sizes, and loops that follow them."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from volvelle.client.accordion import Accordion
from volvelle.client.control_block import (
    EPOCH_MILLIONTHS,
    OWN_BATCH_SIZE,
    REVOKED,
    TOTAL_EPOCHS,
    ControlBlock,
)
from volvelle.client.gns import GradientNoise
from volvelle.client.lease import Lease, ProcessContext
from volvelle.client.run import SaveOptions, TrainingRun

# ------------------------------------------------------------------ Accordion


def epoch_sizes(rule: Accordion, norms: list[float], rates: list[float] | None = None) -> list[int]:
    """The size of each epoch and of the one that follows, if gradients have these norms."""
    sizes = [rule.batch_size]
    for epoch, norm in enumerate(norms):
        rule.observe(0.5 * norm, None if rates is None else rates[epoch])
        rule.observe(1.5 * norm, None if rates is None else rates[epoch])
        rule.epoch_done()
        sizes.append(rule.batch_size)
    return sizes


def test_accordion_is_small_while_gradients_change_and_large_while_they_do_not() -> None:
    sizes = epoch_sizes(Accordion(32, 256), [8.0, 4.0, 3.0, 2.9, 1.0, 0.9])
    assert sizes == [32, 32, 32, 256, 256, 32, 256]


def test_accordion_is_small_after_the_learning_rate_drops() -> None:
    rule = Accordion(32, 256)
    assert epoch_sizes(rule, [1.0] * 5, [0.1, 0.1, 0.1, 0.01, 0.01]) == [
        32, 32, 256, 256, 32, 256,
    ]  # fmt: skip


def test_accordion_looks_only_at_the_end_of_a_period() -> None:
    sizes = epoch_sizes(Accordion(32, 256, every=2), [1.0, 1.0, 1.0, 1.0, 9.0, 9.0])
    assert sizes == [32, 32, 32, 32, 256, 256, 32]


def test_accordion_stays_where_nothing_was_observed() -> None:
    rule = Accordion(32, 256)
    epoch_sizes(rule, [1.0, 1.0])
    rule.epoch_done()
    assert rule.batch_size == 256


# ------------------------------------------------------------------ gradient noise


def noisy_epoch(rule: GradientNoise, noise: float, iterations: int = 400) -> None:
    """An epoch whose gradients have squared mean 1 and a variance of ``noise`` for a sample."""
    draw = random.Random(3)
    for _ in range(iterations):
        size = rule.batch_size
        halves = [1.0 + draw.gauss(0.0, (2.0 * noise / size) ** 0.5) for _ in range(2)]
        small = sum(half**2 for half in halves) / 2
        rule.observe(small, size // 2, (sum(halves) / 2) ** 2, size)
    rule.epoch_done()


def test_the_noise_scale_is_the_variance_over_the_squared_mean() -> None:
    rule = GradientNoise(32, 256, decay=0.999)
    noisy_epoch(rule, 5.0, 20_000)
    assert rule.noise_scale == pytest.approx(5.0, rel=0.2)


def test_gns_doubles_as_noise_grows_never_shrinks_and_ends_at_its_limit() -> None:
    rule, sizes = GradientNoise(32, 100, decay=0.99), []
    for noise in (1.0, 1.0, 4.0, 4.0, 1.0, 16.0, 64.0):
        noisy_epoch(rule, noise)
        sizes.append(rule.batch_size)
    assert sizes == [32, 32, 64, 64, 64, 100, 100]


def test_gns_needs_gradients_over_fewer_samples_and_over_more() -> None:
    with pytest.raises(ValueError, match="fewer samples and more, not 32 and 32"):
        GradientNoise(32, 64).observe(1.0, 32, 1.0, 32)


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        (Accordion, {"small": 64, "large": 32}),
        (Accordion, {"small": 0, "large": 32}),
        (Accordion, {"small": 1, "large": 2, "every": 0}),
        (Accordion, {"small": 1, "large": 2, "threshold": 0.0}),
        (GradientNoise, {"first": 64, "limit": 32}),
        (GradientNoise, {"first": 1, "limit": 2, "growth": 1.0}),
        (GradientNoise, {"first": 1, "limit": 2, "decay": 1.0}),
    ],
)
def test_rules_that_make_no_sense_are_refused(rule: Any, wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"not|must be"):
        rule(**wrong)


@pytest.mark.parametrize("made", [Accordion(32, 256), GradientNoise(32, 256)])
def test_a_rule_goes_on_from_its_state_as_json(made: Accordion | GradientNoise) -> None:
    rule: Any = made
    if isinstance(made, Accordion):
        epoch_sizes(made, [8.0, 8.0, 1.0])
    else:
        noisy_epoch(made, 1.0)
    again: Any = type(made)(32, 256)
    again.load_state_dict(json.loads(json.dumps(rule.state_dict())))
    assert again.state_dict() == rule.state_dict()


# ------------------------------------------------------------------ loops


class Loader:
    """Twelve numbers in batches of a size that can be set."""

    def __init__(self) -> None:
        self.batch_size = 12

    def set(self, size: int) -> None:
        self.batch_size = size

    def __len__(self) -> int:
        return 12 // self.batch_size

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return iter(
            [tuple(range(at, at + self.batch_size)) for at in range(0, 12, self.batch_size)]
        )


class Doubling:
    """A rule that doubles after every epoch."""

    def __init__(self) -> None:
        self.batch_size = 1

    def epoch_done(self) -> None:
        self.batch_size *= 2


class Script:
    """A script in ``folder``; each attempt is a run of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen: list[tuple[int, int]] = []

    def attempt(self, revoke_after: int | None = None) -> list[tuple[int, int, int]]:
        """Run until the lease is revoked; what the control block had in each iteration."""
        ControlBlock.create(self.folder / ControlBlock.FILE_NAME, 1).close()
        block = ControlBlock(self.folder / ControlBlock.FILE_NAME)
        context = ProcessContext(self.folder, 0, 1, 1, self.folder / "checkpoint")
        run, loader, rule = TrainingRun(Lease(context)), Loader(), Doubling()
        latest = run.open_checkpoints(None)
        if latest is not None:
            rule.batch_size = int(latest.read_text())
        options = SaveOptions(lambda path: path.write_text(str(rule.batch_size)), None, 1, False)
        told = []
        for batch in run.iterate(loader, 3, None, options, loader.set, rule):
            self.seen.append((run.progress.epoch, len(batch)))
            told.append((block[EPOCH_MILLIONTHS], block[TOTAL_EPOCHS], block[OWN_BATCH_SIZE]))
            if revoke_after is not None and len(told) == revoke_after:
                block[REVOKED] = 1
        block.close()
        return told


def test_the_scheduler_is_told_of_epochs_and_of_the_sizes_that_the_rule_chooses(
    tmp_path: Path,
) -> None:
    script = Script(tmp_path)
    told = script.attempt()
    assert script.seen == [(0, 1)] * 12 + [(1, 2)] * 6 + [(2, 4)] * 3
    assert told[0] == (0, 3, 1)
    assert told[13] == (1_166_666, 3, 2)
    assert told[-1] == (2_666_666, 3, 4)


@pytest.mark.parametrize("revoke_after", [5, 12, 15])
def test_a_script_that_was_preempted_goes_on_at_the_size_of_its_epoch(
    tmp_path: Path, revoke_after: int
) -> None:
    uninterrupted = Script(tmp_path / "one")
    interrupted = Script(tmp_path / "other")
    for script in (uninterrupted, interrupted):
        script.folder.mkdir()
    uninterrupted.attempt()
    interrupted.attempt(revoke_after)
    interrupted.attempt()
    assert interrupted.seen == uninterrupted.seen
