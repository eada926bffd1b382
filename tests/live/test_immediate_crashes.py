"""A job that crashes at once, twice alike, is not tried for ever, unless that was asked for."""

from pathlib import Path

from server_process import server_process
from waiting import until

CONFIG = """
cluster = "1x4"
executor = { name = "local", pretend = true, linger_seconds = 5 }

[listen]
port = 0
"""

CRASH = "echo ran >> {ran}; echo 'IndexError: list index out of range' >&2; exit 1"
TWICE = (
    "exit code 1: IndexError: list index out of range; twice alike within 10 s "
    "(--retries 3 tries on all the same); not tried again"
)


def test_immediate_crashes_twice_alike_are_not_tried_again_unless_asked_for(
    tmp_path: Path,
) -> None:
    with server_process(tmp_path, CONFIG) as server:
        submit = ["submit", "--gpus", "1"]
        ran = [tmp_path / name for name in ("alike", "asked", "other")]
        scripts = [CRASH.format(ran=file) for file in ran]
        scripts[2] = f"echo ran >> {ran[2]}; echo attempt $VOLVELLE_ATTEMPT; exit 1"
        server.volvelle(*submit, "--", "sh", "-c", scripts[0])
        server.volvelle(*submit, "--retries", "3", "--", "sh", "-c", scripts[1])
        server.volvelle(*submit, "--", "sh", "-c", scripts[2])
        until(lambda: not server.jobs())
        tries = [len(file.read_text().splitlines()) for file in ran]
        assert tries == [2, 4, 4]
        reasons = server.volvelle("why", "0"), server.volvelle("why", "1")
        assert TWICE in reasons[0] and "failed 2 times after " in reasons[0]
        assert "exit code 1: IndexError" in reasons[1] and "failed 4 times" in reasons[1]
