"""The pictures of README.md and docs/, made by our own reports: python docs/make_pictures.py."""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

PICTURES = Path(__file__).resolve().parent / "pictures"

COLOURS = 64
"""Enough for flat charts with smooth edges."""

DEMO = ["compare", "--demo"]
SMALL = ["simulate", "--generate", "lognormal:jobs=60", "--cluster", "4x8", "--policy", "srsf"]
SMALL += ["--placement", "consolidated"]


def main() -> None:
    """Run the demo and a small placed run, and keep three of their pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command, out in ((DEMO, folder / "demo"), (SMALL, folder / "run")):
            volvelle = Path(sys.executable).with_name("volvelle")
            subprocess.run([volvelle, *command, "--out", out, "--png"], check=True)
        _keep(folder / "demo" / "jct_cdf.png", "demo-completion-times.png")
        _keep(folder / "demo" / "queue.png", "demo-queues.png")
        _keep(folder / "run" / "gantt.png", "who-held-the-gpus.png")


def _keep(picture: Path, name: str) -> None:
    """Store a picture with few colours and two thirds of its size."""
    with Image.open(picture) as image:
        size = (image.width * 2 // 3, image.height * 2 // 3)
        small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    small.quantize(COLOURS, dither=Image.Dither.NONE).save(PICTURES / name, optimize=True)


if __name__ == "__main__":
    main()
