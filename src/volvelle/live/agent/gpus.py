"""The GPUs of this machine, as nvidia-smi lists them."""

import os
import re
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

_COMMAND = ("nvidia-smi", "--query-gpu=index,name", "--format=csv,noheader")
_LINE = re.compile(r"\s*(\d+)\s*(?:,\s*(.*?)\s*)?")


class Gpu(NamedTuple):
    """A GPU as CUDA_VISIBLE_DEVICES names it, and its type, as in ``h100``; "" where that is not known."""

    device: str
    gpu_type: str = ""


def find_gpus() -> tuple[Gpu, ...]:
    """The GPUs that nvidia-smi lists, in the order of their numbers; empty without nvidia-smi.

    Where CUDA_VISIBLE_DEVICES is set, the GPUs that it names, also by UUID or as parts of a GPU (MIG).
    """
    try:
        answer = subprocess.run(_COMMAND, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    lines = map(_LINE.fullmatch, answer.stdout.splitlines())
    listed = {line[1]: Gpu(line[1], type_of(line[2] or "")) for line in lines if line is not None}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or not listed:
        return tuple(listed.values())
    names = [name.strip() for name in visible.split(",") if name.strip()]
    kind = common_type(tuple(listed.values()))
    return tuple(
        listed.get(name, Gpu(name, kind)) for name in names if name in listed or "-" in name[1:]
    )


def common_type(gpus: Sequence[Gpu]) -> str:
    """The type of all ``gpus``; "" where they differ."""
    types = {gpu.gpu_type for gpu in gpus}
    return types.pop() if len(types) == 1 else ""


def type_of(name: str) -> str:
    """The model in a product's name: ``h100`` of ``NVIDIA H100 80GB HBM3``; without one the whole name."""
    words = name.lower().replace("-", " ").split()
    return next((word for word in words if re.search(r"\d", word)), "-".join(words))
