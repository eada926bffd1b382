"""Fits a line with PyTorch, in batches whose size the scheduler may set."""

import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

import volvelle.client as vc
from volvelle.client.pollux import Tunable
from volvelle.client.torch import TorchState, set_batch_size

torch.manual_seed(1)
inputs = torch.rand(512, 4)
data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True) + 0.1 * torch.randn(512, 1))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(data, batch_size=32, shuffle=True)
rule = Tunable(first=32, limit=256, most_local=128)
state = vc.restore(default=TorchState(model=model, optimizer=optimizer))


def gradient(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    loss = torch.nn.functional.mse_loss(model(x), y)
    return torch.cat([one.flatten() for one in torch.autograd.grad(loss, [*model.parameters()])])


def resize(size: int) -> None:
    set_batch_size(loader, size)


for x, y in vc.iterate(
    loader, epochs=int(sys.argv[1]), save=state.save, scaling=rule, on_batch_size=resize
):
    half = len(x) // 2
    parts = gradient(x[:half], y[:half]), gradient(x[half:], y[half:])
    whole = (parts[0] + parts[1]) / 2
    small = float(parts[0] @ parts[0] + parts[1] @ parts[1]) / 2
    rule.observe(small, half, float(whole @ whole), len(x))
    torch.nn.utils.vector_to_parameters(
        torch.nn.utils.parameters_to_vector(model.parameters()) - 0.01 * whole, model.parameters()
    )
