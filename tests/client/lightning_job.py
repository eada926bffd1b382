"""A job for tests: a Lightning Trainer on a small linear model. Its argument: seconds of a step."""

import sys
import time
from typing import Any

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

from volvelle.client.lightning import PreemptibleLightningCallback


class Line(lightning.LightningModule):  # type: ignore[misc, unused-ignore]
    """y = a x + b, slowly."""

    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(1, 1)

    def training_step(self, batch: Any, _: int) -> Any:
        """The loss."""
        time.sleep(float(sys.argv[1]))
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.line(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main() -> None:
    """Train."""
    torch.manual_seed(1)
    x = torch.rand(160, 1)
    loader = DataLoader(TensorDataset(x, 3 * x - 1), batch_size=4, shuffle=True)
    preemptible = PreemptibleLightningCallback("out", every=30)
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        callbacks=[preemptible],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=1,
    )
    trainer.fit(Line(), loader, ckpt_path=preemptible.latest)


if __name__ == "__main__":
    main()
