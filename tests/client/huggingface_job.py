"""A job for tests: Hugging Face's Trainer on a small linear model. Its argument: seconds of a step."""

import sys
import time
from typing import Any

import torch
from transformers import Trainer, TrainingArguments

import volvelle.client as vc
from volvelle.client.huggingface import PreemptibleTrainerCallback, latest_checkpoint


class Line(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """y = a x + b, slowly."""

    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(1, 1)

    def forward(self, x: Any, labels: Any) -> dict[str, Any]:
        """The loss, as the Trainer wants it."""
        time.sleep(float(sys.argv[1]))
        return {"loss": torch.nn.functional.mse_loss(self.line(x), labels)}


def main() -> None:
    """Train."""
    torch.manual_seed(1)
    folder = vc.checkpoint_folder("out")
    x = torch.rand(160, 1)
    rows = [{"x": one, "labels": 3 * one - 1} for one in x]
    arguments = TrainingArguments(
        str(folder),
        num_train_epochs=2,
        per_device_train_batch_size=4,
        logging_steps=1,
        save_steps=30,
        save_total_limit=2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(
        Line(), arguments, train_dataset=rows, callbacks=[PreemptibleTrainerCallback()]
    )
    trainer.train(resume_from_checkpoint=latest_checkpoint(folder))


if __name__ == "__main__":
    main()
