"""The entry point of a pod's container: ``python -m volvelle.live.agent.pod``.

It runs the agent of this pod, which dials in as agents of nodes do and has one task, and copies what the task
writes to its own output, where Kubernetes keeps it. A pod that is asked to end passes that on as a machine
that is shut down does: the task may write its checkpoint, and the agent reports its end.

The end of the task is the container's termination message, which outlives it. The exit code is 0 if the task
finished, 75 if it is to be run again, else 1.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from volvelle.live.agent.files import write_file
from volvelle.live.agent.folders import OUTPUT, AgentFolder, AgentSettings, AttemptFolder
from volvelle.live.agent.node_key import derived_key
from volvelle.live.agent.pod_names import END, KEY, NODE, POD_ADDRESS, SETTINGS, pod_name
from volvelle.live.agent.wire import TaskEnded
from volvelle.live.messages import NOT_DONE, Outcome

_POLL_SECONDS = 0.1
_RETRY_SECONDS = 0.5
_CHUNK_BYTES = 1 << 16
_INDEX = "JOB_COMPLETION_INDEX"
_OWN = {SETTINGS, KEY, END, POD_ADDRESS, NODE, _INDEX}
_CODES = {Outcome.FINISHED: 0, Outcome.STOPPED: NOT_DONE}
_PR_SET_CHILD_SUBREAPER = 36


def settings_of(environment: Mapping[str, str]) -> AgentSettings:
    """The settings of the agent of this pod, which the executor gave to all pods of its job."""
    given = msgspec.json.decode(environment[SETTINGS], type=AgentSettings)
    name = pod_name(given.node.name, int(environment[_INDEX]))
    others = {key: value for key, value in environment.items() if key not in _OWN}
    return msgspec.structs.replace(
        given,
        node=msgspec.structs.replace(given.node, name=name),
        key=derived_key(environment[KEY], name),
        address=environment[POD_ADDRESS],
        devices=tuple(map(str, range(given.node.gpus))),  # a container sees its own, from 0 on
        environment=others | {"VOLVELLE_NODE": environment[NODE]},
    )


def main() -> int:
    """Run the agent until it is not needed. Returns the exit code."""
    os.umask(0o077)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    folder = AgentFolder(Path(tempfile.gettempdir()) / "volvelle")
    settings = settings_of(os.environ)
    write_file(folder.path / "agent.json", msgspec.json.encode(settings))
    output, ending = _Output(folder), _Ending()
    while True:
        command = [sys.executable, "-m", "volvelle.live.agent", str(folder.path)]
        agent = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        ending.agent = agent.pid
        while (status := _reaped(agent.pid)) is None:
            output.copy()
            time.sleep(_POLL_SECONDS)
        output.copy()
        if status == 0:
            break
        time.sleep(_RETRY_SECONDS)
    if (end := _end(folder)) is None:
        return 1
    Path(os.environ[END]).write_bytes(msgspec.json.encode(end))
    return _CODES.get(end.outcome, 1)


def _reaped(agent: int) -> int | None:
    """The status of the agent if it has ended. Orphans of the container are children of this process."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == agent:
                return ended[1]
    return None


def _end(folder: AgentFolder) -> TaskEnded | None:
    """The end of the task of this pod."""
    for kept in (folder.attempts, folder.ended):
        for path in kept.iterdir():
            if (end := AttemptFolder(path).end) is not None:
                return end
    return None


class _Ending:
    """Passes SIGTERM on to all processes of the container but the ``agent``, which reports the ends."""

    agent = 0

    def __init__(self) -> None:
        signal.signal(signal.SIGTERM, self._pass_on)

    def _pass_on(self, *_: object) -> None:
        for pid in _below(os.getpid()):
            if pid != self.agent:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)


def _below(pid: int) -> Iterator[int]:
    """The processes below one, as far as they can be seen."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    waiting = children.get(pid, [])
    while waiting:
        waiting += children.get(waiting[0], [])
        yield waiting.pop(0)


class _Output:
    """Copies what the task writes to the output of this process."""

    def __init__(self, folder: AgentFolder) -> None:
        self._folder, self._offset = folder, 0

    def copy(self) -> None:
        """Copy what is new."""
        for kept in (self._folder.attempts, self._folder.ended):
            for path in kept.glob(f"*/{OUTPUT}"):
                with contextlib.suppress(OSError), path.open("rb") as file:
                    file.seek(self._offset)
                    while chunk := file.read(_CHUNK_BYTES):
                        self._offset += len(chunk)
                        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
