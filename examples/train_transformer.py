"""Trains a transformer on a GPU, in bfloat16, to repeat what it reads: a preemptible PyTorch script.

    python train_transformer.py [ITERATIONS [SEED]]

On a machine without a GPU the transformer is a small one. Sums are the same in every run, so a run that was
preempted has the losses of one that was not.
"""

import os
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import volvelle.client as vc
from volvelle.client.torch import TorchState

EPOCH = 25
"""Iterations."""

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it sums differ by the run
torch.use_deterministic_algorithms(True)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
epochs = max((int(sys.argv[1]) if len(sys.argv) > 1 else 500) // EPOCH, 1)
torch.manual_seed(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
width, layers, length, rows = (512, 4, 512, 128) if device.type == "cuda" else (64, 1, 32, 2)


class Transformer(nn.Module):
    """Logits of the next token, of 256, at every position."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, width), nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, 256)

    def forward(self, tokens):
        """The logits."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        mask = nn.Transformer.generate_square_subsequent_mask(len(places), device=tokens.device)
        inputs = self.tokens(tokens) + self.places(places)
        return self.head(self.layers(inputs, mask=mask, is_causal=True))


data = TensorDataset(torch.randint(256, (EPOCH * rows, 16)).repeat(1, length // 16))
model = Transformer().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
state = vc.restore(
    default=TorchState(model=model, optimizer=optimizer), checkpoint="train_transformer.checkpoint"
)
began, first = 0.0, vc.progress().iterations + 20
for (batch,) in vc.iterate(
    DataLoader(data, batch_size=rows, shuffle=True), epochs=epochs, save=state.save, every="1m"
):
    if vc.progress().iterations == first:  # the first ones are slower
        began = time.monotonic()
    tokens = batch.to(device)
    with torch.autocast(device.type, torch.bfloat16):
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    vc.report(loss=loss)

done = vc.progress().iterations
if vc.preempted():
    print(f"preempted after {done} iterations")
else:
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = (time.monotonic() - began) / max(done - first, 1)
    print(f"{done} iterations, {seconds:.6f} s an iteration on {device.type}")
