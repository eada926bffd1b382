"""Trains a small network whose batch size follows Accordion's rule: a preemptible PyTorch script.

    python train_adaptive_torch.py [EPOCHS [SECONDS_PER_ITERATION]]

Run by itself it keeps its checkpoint in the folder train_adaptive_torch.checkpoint.
"""

import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

import volvelle.client as vc
from volvelle.client.accordion import Accordion
from volvelle.client.torch import TorchState, set_batch_size, squared_gradient_norm

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0

torch.manual_seed(1)
torch.set_num_threads(1)
inputs = torch.rand(1280, 2)
data = TensorDataset(inputs, inputs.prod(dim=1, keepdim=True))
loader = DataLoader(data, batch_size=32, shuffle=True)
model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rule = Accordion(small=32, large=128, threshold=0.3)
state = vc.restore(
    default=TorchState(model=model, optimizer=optimizer, rule=rule),
    checkpoint="train_adaptive_torch.checkpoint",
)

for x, y in vc.iterate(
    loader,
    epochs=epochs,
    save=state.save,
    every="1m",
    scaling=rule,
    on_batch_size=lambda size: set_batch_size(loader, size),
):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    rule.observe(squared_gradient_norm(model) ** 0.5, optimizer.param_groups[0]["lr"])
    optimizer.step()
    vc.report(loss=loss, batch_size=len(x))
    time.sleep(seconds)

if vc.preempted():
    print(f"preempted after {vc.progress().iterations} iterations")
else:
    print(f"{vc.progress().iterations} iterations, batch size {rule.batch_size} in the end")
