"""Fits a line to points by stochastic gradient descent: a preemptible script in plain Python.

    python train_line.py [EPOCHS [SECONDS_PER_ITERATION]]

Run by itself it keeps its checkpoint in the folder train_line.checkpoint.
"""

import random
import sys
import time

import volvelle.client as vc

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0

random.seed(1)
points = [(x / 100, 3 * x / 100 - 1 + random.gauss(0, 0.1)) for x in range(100)]


class Shuffled:
    """The points, in a new order in every epoch."""

    def __len__(self):
        return len(points)

    def __iter__(self):
        return iter(random.sample(points, len(points)))


state = vc.restore(default=vc.State(slope=0.0, intercept=0.0), checkpoint="train_line.checkpoint")
for x, y in vc.iterate(Shuffled(), epochs=epochs, save=state.save, every="1s"):
    error = state.slope * x + state.intercept - y
    state.slope -= 0.05 * error * x
    state.intercept -= 0.05 * error
    vc.report(loss=error * error)
    time.sleep(seconds)

if vc.preempted():
    print(f"preempted after {vc.progress().iterations} iterations")
else:
    print(f"{vc.progress().iterations} iterations: y = {state.slope:.6f} x + {state.intercept:.6f}")
