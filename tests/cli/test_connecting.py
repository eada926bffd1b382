"""Commands right after ``volvelle serve &``."""

import socket
import threading
import time
from pathlib import Path

import pytest

from volvelle.cli import connecting
from volvelle.live.serve_folder import ServeFolder, ServerAddress, write_secret
from volvelle.model.problems import Problem


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("VOLVELLE_SERVER", "VOLVELLE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(connecting, "_SILENT_SECONDS", 0.0)
    return tmp_path


def test_a_server_that_starts_is_waited_for(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ServeFolder(here / "volvelle-serve")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"

        def start() -> None:
            time.sleep(0.1)
            folder.prepare()
            write_secret(folder.token_file, "secret")
            folder.write_address(ServerAddress(url))

        starting = threading.Thread(target=start)
        starting.start()
        assert connecting.find_server().url == url
        starting.join()
    assert "waiting up to 5 s for a server to start here" in capsys.readouterr().err


def test_without_a_server_it_is_said_how_to_name_one(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "WAIT_SECONDS", 0.1)
    with pytest.raises(Problem, match="no server is known"):
        connecting.find_server()
