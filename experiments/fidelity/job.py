"""A short job with a true checkpoint: each iteration sleeps, or trains a little network and sleeps the rest.

python job.py ITERATIONS SECONDS_PER_ITERATION sleep|torch
"""

import sys
import time

import volvelle.client as vc

iterations, seconds = int(sys.argv[1]), float(sys.argv[2])


class Counting:
    """Training that only counts."""

    def __init__(self) -> None:
        self.state = vc.restore(default=vc.State(steps=0))

    def step(self) -> float:
        """One iteration; its loss."""
        self.state.steps += 1
        return 1.0 / float(self.state.steps)


class Training:
    """A layer that learns to add."""

    def __init__(self) -> None:
        import torch  # noqa: PLC0415 - only these jobs need it

        from volvelle.client.torch import TorchState  # noqa: PLC0415 - as above

        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.model = torch.nn.Linear(8, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.draw = torch.randn
        self.state = vc.restore(default=TorchState(model=self.model, optimizer=self.optimizer))

    def step(self) -> float:
        """One iteration; its loss."""
        inputs = self.draw(32, 8)
        loss = (self.model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss)


job = Training() if sys.argv[3] == "torch" else Counting()
until = time.monotonic()
for _ in vc.iterate(range(iterations), epochs=1, save=job.state.save, every="5s"):
    until += seconds  # by the clock: what a step took longer, the next ones make up for
    vc.report(loss=job.step())
    time.sleep(max(until - time.monotonic(), 0.0))
