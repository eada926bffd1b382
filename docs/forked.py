"""Commands of ``volvelle``, and Python programs, as forks of one process that has imported what they need.

A command by itself imports for a third of a second, a server for a whole one, which is most of what they take
where jobs are few. A fork has folder, umask, variables, standard streams and arguments of its caller.
"""

import atexit
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO

_IMPORTED = (
    "volvelle.cli.jobs", "volvelle.cli.main", "volvelle.cli.results", "volvelle.cli.simulate",
    "volvelle.cli.submit", "volvelle.cli.trace", "volvelle.live.http.client", "volvelle.live.serving",
    "volvelle.report.whole", "volvelle.simulate.compare", "volvelle.simulate.experiment",
)  # fmt: skip
_MOST_BYTES = 1 << 18
_END_SECONDS = 5.0
_PROGRAM = """#!{python} -IS
import _signal, os, socket, sys
call = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
call.connect({calls!r})
variables = [f"{{name}}={{value}}" for name, value in os.environ.items()]
mask = os.umask(0o77)
words = [os.getcwd(), str(mask), str(len(sys.argv)), *sys.argv, *variables]
socket.send_fds(call, [b"\\0".join(map(os.fsencode, words))], [0, 1, 2])
process = int(call.recv(16))
for number in (_signal.SIGINT, _signal.SIGTERM):
    _signal.signal(number, lambda number, _: os.kill(process, number))
sys.exit(int(call.recv(16) or b"1") % 256)
"""


class Forked:
    """The process whose forks are commands.

    folder: has ``volvelle``, for PATH, and ``program``, which runs a file of Python.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="volvelle-forked-"))
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def start(self, folder: Path, *arguments: str, output: IO[str]) -> "ForkedProcess":
        """Start a command in ``folder`` that prints to ``output``."""
        call = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        call.connect(str(self.folder / "calls"))
        variables = [f"{name}={value}" for name, value in os.environ.items()]
        os.umask(mask := os.umask(0o77))
        head = [str(folder), str(mask), str(len(arguments) + 1), "volvelle"]
        words = [*head, *arguments, *variables]
        with Path(os.devnull).open() as nothing:
            streams = [nothing.fileno(), output.fileno(), output.fileno()]
            socket.send_fds(call, [b"\0".join(map(os.fsencode, words))], streams)
        return ForkedProcess(call)

    def end(self) -> None:
        """End it, which it does by itself when this process and its own forks are gone."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder)


class ForkedProcess:
    """A command that was started, as far as a `subprocess.Popen` is needed."""

    def __init__(self, call: socket.socket) -> None:
        self._call = call
        self.pid = int(call.recv(16))
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, negative for the signal that ended it. Raises `TimeoutError`."""
        if self.returncode is None:
            self._call.settimeout(timeout)
            self.returncode = int(self._call.recv(16))
            self._call.close()
        return self.returncode

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""
        with suppress(BlockingIOError):
            self.wait(0.0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


@cache
def forked() -> Forked:
    """That of this process, made when it is first asked for."""
    made = Forked()
    atexit.register(made.end)
    return made


def _serve(folder: Path) -> None:
    """Serve calls until standard input ends."""
    for module in _IMPORTED:
        import_module(module)
    from volvelle.core.policy import policies  # noqa: PLC0415 - callers need none of this

    policies.all()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as calls:
        calls.bind(str(folder / "calls"))
        calls.listen()
        for name in ("volvelle", "program"):
            program = folder / name
            program.write_text(_PROGRAM.format(python=sys.executable, calls=calls.getsockname()))
            program.chmod(0o755)
        print(flush=True)
        ended = False
        while not ended:
            ended = sys.stdin in select.select([calls, sys.stdin], [], [])[0]
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if not ended:
                call, _ = calls.accept()
                with call:
                    if os.fork() == 0:
                        _answer(call)


def _answer(call: socket.socket) -> None:
    """Be the command, or the process that tells its caller how it ended."""
    text, streams, _, _ = socket.recv_fds(call, _MOST_BYTES, 3)
    if child := os.fork():
        call.send(b"%d" % child)
        for stream in streams:
            os.close(stream)
        call.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        os._exit(0)
    call.close()
    where, mask, count, *words = map(os.fsdecode, text.split(b"\0"))
    sys.argv, variables = words[: int(count)], words[int(count) :]
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(where)
    os.umask(int(mask))
    os.environ.clear()
    for variable in variables:
        name, _, value = variable.partition("=")
        os.environ[name] = value
    status = 1
    try:
        _run()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:
        traceback.print_exc()
    else:
        status = 0
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # taking all that was imported apart takes longer than most commands


def _run() -> None:
    """Run what ``sys.argv`` says."""
    if Path(sys.argv[0]).name == "volvelle":
        from volvelle.cli.main import main  # noqa: PLC0415 - as above

        main()
    else:
        del sys.argv[0]
        sys.path.insert(0, str(Path(sys.argv[0]).parent))
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
