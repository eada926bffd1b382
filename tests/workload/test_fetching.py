"""`volvelle trace fetch`: downloads are verified, gone on with, and pinned where no hash is known."""

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from volvelle.cli.main import app
from volvelle.model.problems import Problem
from volvelle.workload import fetching
from volvelle.workload.fetching import PINS, PublishedFile, fetch, published_traces
from volvelle.workload.readers import formats

ROWS = b"submit_time,gpus,duration\n" + b"".join(b"%d,1,60\n" % i for i in range(200))


def packed() -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name in ("data/other.csv", "data/jobs.csv"):
            entry = tarfile.TarInfo(name)
            entry.size = len(ROWS)
            tar.addfile(entry, io.BytesIO(ROWS))
    return archive.getvalue()


class Served:
    """A server of files. ``cut``: bytes after which it hangs up once; ``asked``: the ranges asked for."""

    def __init__(self) -> None:
        self.files = {"/jobs.csv": ROWS, "/all.tar.gz": packed()}
        self.cut: int | None = None
        self.asked: list[str | None] = []
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                whole = served.files.get(self.path)
                wanted = self.headers.get("Range")
                served.asked.append(wanted)
                if whole is None:
                    self.send_error(404)
                    return
                first = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
                if first >= len(whole):
                    self.send_error(416)
                    return
                self.send_response(206 if wanted else 200)
                self.send_header("Content-Length", str(len(whole) - first))
                self.end_headers()
                last, served.cut = served.cut, None
                self.wfile.write(whole[first:last])

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def file(self, name: str, **known: object) -> PublishedFile:
        host, port = self.server.server_address[:2]
        return PublishedFile.model_validate({"url": f"http://{host!s}:{port}/{name}", **known})


@pytest.fixture
def served() -> Iterator[Served]:
    server = Served()
    yield server
    server.server.shutdown()
    server.server.server_close()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_the_catalogue_names_readers_licences_and_pages() -> None:
    for trace in published_traces().values():
        assert trace.reader in formats.names()
        assert trace.licence
        assert all(file.url.startswith("https://") for file in trace.files)
        assert all(len(file.sha256) in (0, 64) for file in trace.files)


def test_what_broke_off_is_gone_on_with(served: Served, tmp_path: Path) -> None:
    file = served.file("jobs.csv", sha256=sha256(ROWS), bytes=len(ROWS))
    served.cut = 700
    with pytest.raises(Problem, match=r"broke off at 700 bytes\. Give the command again"):
        fetch(file, tmp_path)
    assert not (tmp_path / "jobs.csv").exists()
    told: list[tuple[int, int | None]] = []
    assert fetch(file, tmp_path, lambda done, total: told.append((done, total))) == file.sha256
    assert served.asked == [None, "bytes=700-"]
    assert told[-1] == (len(ROWS), len(ROWS))
    assert (tmp_path / "jobs.csv").read_bytes() == ROWS
    assert sorted(path.name for path in tmp_path.iterdir()) == [PINS, "jobs.csv"]


def test_a_part_of_something_longer_is_begun_again(served: Served, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv.partial").write_bytes(ROWS + b"more")
    fetch(served.file("jobs.csv"), tmp_path)
    assert (tmp_path / "jobs.csv").read_bytes() == ROWS


def test_another_hash_is_refused_and_removed(served: Served, tmp_path: Path) -> None:
    with pytest.raises(Problem, match="that of the catalogue " + 64 * "0"):
        fetch(served.file("jobs.csv", sha256=64 * "0"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_without_a_known_hash_the_first_download_is_the_measure(
    served: Served, tmp_path: Path
) -> None:
    file = served.file("jobs.csv")
    assert fetch(file, tmp_path) == sha256(ROWS)
    assert sha256(ROWS) in (tmp_path / PINS).read_text()
    served.files["/jobs.csv"] = ROWS + b"9,9,9\n"
    with pytest.raises(Problem, match="that of the first download"):
        fetch(file, tmp_path)
    assert (tmp_path / "jobs.csv").read_bytes() == ROWS


def test_one_member_of_an_archive_is_kept(served: Served, tmp_path: Path) -> None:
    fetch(served.file("all.tar.gz", unpack="jobs.csv"), tmp_path)
    assert (tmp_path / "jobs.csv").read_bytes() == ROWS
    assert sorted(path.name for path in tmp_path.iterdir()) == [PINS, "jobs.csv"]
    with pytest.raises(Problem, match=r"there is no none.csv in"):
        fetch(served.file("all.tar.gz", unpack="none.csv"), tmp_path)


def test_without_a_network_it_is_said_what_to_do(served: Served, tmp_path: Path) -> None:
    with pytest.raises(Problem, match="answered 404 Not Found"):
        fetch(served.file("moved.csv"), tmp_path)
    gone = served.file("jobs.csv")
    served.server.server_close()
    served.server.shutdown()
    with pytest.raises(Problem, match=r"cannot be reached: .*download http://.* and put it into"):
        fetch(gone, tmp_path)


def test_the_command_shows_the_licence_and_what_comes_next(
    served: Served,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    catalogue = tmp_path / "published.toml"
    catalogue.write_text(
        '[mine]\ntitle = "Mine"\nreader = "volvelle"\nlicence = "CC0"\npage = "https://here"\n'
        f'[[mine.files]]\nurl = "{served.file("jobs.csv").url}"\n'
    )
    monkeypatch.setattr(fetching, "CATALOGUE", catalogue)
    monkeypatch.chdir(tmp_path)
    app(["trace", "fetch", "mine"], standalone_mode=False)
    said = capsys.readouterr()
    assert "licence: CC0 (https://here)" in said.err
    assert f"SHA-256 {sha256(ROWS)}, kept in mine/{PINS}" in said.err
    assert said.out == "Next: volvelle trace describe mine/jobs.csv --format volvelle\n"
    with pytest.raises(Problem, match="is there already"):
        app(["trace", "fetch", "mine"], standalone_mode=False)
    with pytest.raises(Problem, match=r"'mime' \(did you mean 'mine'\?\)"):
        app(["trace", "fetch", "mime"], standalone_mode=False)
