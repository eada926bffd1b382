"""The agent of a Ray node: an actor around it, started again by Ray when it dies.

Jobs outlive the actor but not the raylet: their keepers end with it.
"""

import asyncio
import contextlib
import os
import select
import threading
import time
import traceback
from pathlib import Path

import msgspec

from volvelle.live.agent.controller_connection import RefusedError
from volvelle.live.agent.folders import AgentFolder, Settings, write
from volvelle.live.agent.gpus import gpus_found
from volvelle.live.agent.node_agent import work

_RETRY_SECONDS = 1.0


class RayAgent:
    """Works in the folder ``path`` of its node."""

    def __init__(self, path: str, settings: bytes) -> None:
        os.umask(0o077)
        self._folder = AgentFolder(Path(path))
        plain = msgspec.json.decode(settings, type=Settings)
        self._settings = msgspec.structs.replace(plain, anchor=_raylet(), devices=_devices())
        threading.Thread(target=self._serve, name="agent", daemon=True).start()
        threading.Thread(target=self._end_with_raylet, name="raylet", daemon=True).start()

    def redirect(self, address: str) -> None:
        """The controller is at ``address`` now, HOST:PORT."""
        write(Path(self._settings.connect), address.encode())

    def _end_with_raylet(self) -> None:
        """An actor answers for a while after its raylet is gone; this one does not."""
        anchor = os.pidfd_open(self._settings.anchor)
        select.select([anchor], [], [])
        os._exit(1)

    def _serve(self) -> None:
        """Be the agent until it is unwanted or refused; then the actor is not needed any more."""
        import ray  # noqa: PLC0415 - it is there where this runs

        try:
            asyncio.run(work(self._folder, self._settings))
        except RefusedError as refusal:
            with contextlib.suppress(OSError):
                (self._folder.path / "agent.log").write_text(f"refused: {refusal}\n")
        except Exception:  # whatever it was: Ray starts the actor again
            traceback.print_exc()
            time.sleep(_RETRY_SECONDS)
            os._exit(1)
        ray.kill(ray.get_runtime_context().current_actor, no_restart=True)


def _devices() -> tuple[str, ...] | None:
    """What CUDA calls the GPUs that Ray gave us; None where they are made up."""
    import ray  # noqa: PLC0415 - as above

    return tuple(str(gpu) for gpu in ray.get_gpu_ids()) if gpus_found() else None


def _raylet() -> int:
    """The raylet under which this worker runs. Raises RuntimeError where there is none."""
    pid = os.getppid()
    while pid > 1:
        fields = Path(f"/proc/{pid}/stat").read_text()
        if "(raylet)" in fields:
            return pid
        pid = int(fields.rpartition(")")[2].split()[1])
    raise RuntimeError("this worker runs under no raylet")
