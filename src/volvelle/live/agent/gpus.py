"""The GPUs of a machine, as far as nvidia-smi knows them."""

import subprocess


def gpus_found() -> list[str]:
    """The GPUs that nvidia-smi lists, in its numbers."""
    command = ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return answer.stdout.split()
