"""Fits a linear model in mini-batches whose size doubles as gradients get noisier, in NumPy.

    python train_adaptive.py [EPOCHS [SECONDS_PER_ITERATION]]

Run by itself it keeps its checkpoint in the folder train_adaptive.checkpoint.
"""

import sys
import time

import numpy as np

import volvelle.client as vc
from volvelle.client.gns import GradientNoise

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 40
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0

made = np.random.default_rng(1)
inputs = made.normal(size=(1024, 8))
targets = inputs @ np.arange(8.0) + made.normal(size=1024)
np.random.seed(1)


class Batches:
    """The samples in a new order in every epoch, in batches of a size that can be set."""

    batch_size = 32

    def __len__(self):
        return len(inputs) // self.batch_size

    def __iter__(self):
        order = np.random.permutation(len(inputs))
        return iter(order[: len(self) * self.batch_size].reshape(len(self), -1))


batches, rule = Batches(), GradientNoise(first=32, limit=128)
state = vc.restore(
    default=vc.State(weights=[0.0] * 8, rule=rule.state_dict()),
    checkpoint="train_adaptive.checkpoint",
)
weights = np.array(state.weights)
rule.load_state_dict(state.rule)


def save(path):
    """Keep the rule with the model."""
    state.weights, state.rule = weights.tolist(), rule.state_dict()
    state.save(path)


for rows in vc.iterate(
    batches,
    epochs=epochs,
    save=save,
    every="1s",
    scaling=rule,
    on_batch_size=lambda size: setattr(batches, "batch_size", size),
):
    errors = inputs[rows] @ weights - targets[rows]
    half = len(rows) // 2
    first, second = (inputs[one].T @ errors[part] / half for one, part in (
        (rows[:half], slice(half)), (rows[half:], slice(half, None))
    ))  # fmt: skip
    gradient = (first + second) / 2
    rule.observe((first @ first + second @ second) / 2, half, gradient @ gradient, len(rows))
    weights -= 0.006 * gradient
    vc.report(loss=np.mean(errors**2))
    time.sleep(seconds)

if vc.preempted():
    print(f"preempted after {vc.progress().iterations} iterations")
else:
    print(f"{vc.progress().iterations} iterations, batch size {rule.batch_size} in the end")
