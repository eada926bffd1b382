"""The GPUs of this machine, as nvidia-smi lists them."""

import os
import re
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

_COMMAND = ("nvidia-smi", "-L")
_CARD = re.compile(r"GPU (\d+): (.*?) \(UUID: (\S+)\)\s*")
_PART = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (\S+)\)\s*")


class Gpu(NamedTuple):
    """A GPU as CUDA_VISIBLE_DEVICES names it, and its type, as in ``h100``; "" where that is not known."""

    device: str
    gpu_type: str = ""


def find_gpus() -> tuple[Gpu, ...]:
    """The GPUs that nvidia-smi lists, in the order of their numbers; empty without nvidia-smi.

    A GPU that is cut (MIG) is its parts, each of them a GPU of a type as ``a100-1g.10gb``. Where
    CUDA_VISIBLE_DEVICES is set, the GPUs that it names, by number or UUID.
    """
    try:
        answer = subprocess.run(_COMMAND, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    found, by_name = list[Gpu](), dict[str, list[Gpu]]()
    for uuid, card, parts in _cards(answer.stdout):
        found += parts or [card]
        by_name |= {part.device: [part] for part in parts}
        by_name |= {card.device: parts or [card], uuid: parts or [card._replace(device=uuid)]}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or not found:
        return tuple(found)
    names = [name.strip() for name in visible.split(",") if name.strip()]
    unlisted = common_type(found)
    return tuple(
        gpu
        for name in names
        if name in by_name or "-" in name[1:]
        for gpu in by_name.get(name, [Gpu(name, unlisted)])
    )


def _cards(listed: str) -> list[tuple[str, Gpu, list[Gpu]]]:
    """The UUID of each GPU, the GPU, and its parts."""
    cards: list[tuple[str, Gpu, list[Gpu]]] = []
    for line in listed.splitlines():
        if card := _CARD.fullmatch(line):
            cards.append((card[3], Gpu(card[1], type_of(card[2])), []))
        elif cards and (part := _PART.fullmatch(line)):
            _, whole, parts = cards[-1]
            parts.append(Gpu(part[2], f"{whole.gpu_type}-{part[1]}".replace("+", ".")))
    return cards


def common_type(gpus: Sequence[Gpu]) -> str:
    """The type of all ``gpus``; "" where they differ."""
    types = {gpu.gpu_type for gpu in gpus}
    return types.pop() if len(types) == 1 else ""


def type_of(name: str) -> str:
    """The model in a product's name: ``h100`` of ``NVIDIA H100 80GB HBM3``; without one the whole name."""
    words = name.lower().replace("-", " ").split()
    return next((word for word in words if re.search(r"\d", word)), "-".join(words))
