"""The agent of a Ray node, in an actor that Ray restarts when it dies.

Jobs outlive the actor but not the raylet: their supervisors end with it.
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
from volvelle.live.agent.files import write_file
from volvelle.live.agent.folders import AgentFolder, AgentSettings
from volvelle.live.agent.gpus import find_gpus
from volvelle.live.agent.node_agent import run_agent

_RETRY_SECONDS = 1.0


class RayAgent:
    """The agent in the folder ``path`` of its node."""

    def __init__(self, path: str, settings: bytes) -> None:
        os.umask(0o077)
        self._folder = AgentFolder(Path(path))
        given = msgspec.json.decode(settings, type=AgentSettings)
        self._settings = msgspec.structs.replace(
            given, lifetime_pid=_raylet_pid(), devices=_devices()
        )
        threading.Thread(target=self._run, name="agent", daemon=True).start()
        threading.Thread(target=self._end_with_raylet, name="raylet", daemon=True).start()

    def redirect(self, address: str) -> None:
        """Connect to ``address``, HOST:PORT, from now on."""
        write_file(Path(self._settings.connect), address.encode())

    def _end_with_raylet(self) -> None:
        """An actor answers for a while after its raylet has ended; this one does not."""
        raylet = os.pidfd_open(self._settings.lifetime_pid)
        select.select([raylet], [], [])
        os._exit(1)

    def _run(self) -> None:
        """Run the agent until it is not needed or refused; then end the actor."""
        import ray  # noqa: PLC0415 - it is there where this runs

        try:
            asyncio.run(run_agent(self._folder, self._settings))
        except RefusedError as error:
            with contextlib.suppress(OSError):
                (self._folder.path / "agent.log").write_text(f"refused: {error}\n")
        except Exception:  # Ray restarts the actor
            traceback.print_exc()
            time.sleep(_RETRY_SECONDS)
            os._exit(1)
        ray.kill(ray.get_runtime_context().current_actor, no_restart=True)


def _devices() -> tuple[str, ...] | None:
    """The GPUs that Ray gave to the actor, as CUDA names them; None if they are made up."""
    import ray  # noqa: PLC0415 - as above

    return tuple(str(gpu) for gpu in ray.get_gpu_ids()) if find_gpus() else None


def _raylet_pid() -> int:
    """The raylet of this worker. Raises RuntimeError if there is none."""
    pid = os.getppid()
    while pid > 1:
        fields = Path(f"/proc/{pid}/stat").read_text()
        if "(raylet)" in fields:
            return pid
        pid = int(fields.rpartition(")")[2].split()[1])
    raise RuntimeError("this worker runs under no raylet")
