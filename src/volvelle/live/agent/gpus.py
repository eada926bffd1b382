"""The GPUs of this machine, as nvidia-smi lists them."""

import subprocess


def find_gpus() -> list[str]:
    """Indices of the GPUs that nvidia-smi lists; empty without nvidia-smi."""
    command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return answer.stdout.split()
