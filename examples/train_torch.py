"""Trains a small network to multiply: a preemptible PyTorch script, for one process or under torchrun.

    python train_torch.py [EPOCHS [SECONDS_PER_ITERATION]]
    torchrun --nproc-per-node 2 train_torch.py

Run by itself it keeps its checkpoint in the folder train_torch.checkpoint.
"""

import os
import sys
import time

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import volvelle.client as vc
from volvelle.client.torch import TorchState

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1

torch.manual_seed(1)
inputs = torch.rand(1280, 2)
data = TensorDataset(inputs, inputs.prod(dim=1, keepdim=True))
model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
state = vc.restore(
    default=TorchState(model=model, optimizer=optimizer), checkpoint="train_torch.checkpoint"
)

if distributed:
    torch.distributed.init_process_group("gloo")
    model = DistributedDataParallel(model)
    loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
else:
    loader = DataLoader(data, batch_size=32, shuffle=True)

for x, y in vc.iterate(loader, epochs=epochs, save=state.save, every="1m"):
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    vc.report(loss=loss)
    time.sleep(seconds)

if vc.preempted():
    print(f"preempted after {vc.progress().iterations} iterations")
elif int(os.environ.get("RANK", "0")) == 0:
    print(f"{vc.progress().iterations} iterations")
if distributed:
    torch.distributed.destroy_process_group()
