"""Working directories that travel with jobs: packed, kept by their content, fetched by agents."""

import asyncio
import gzip
import os
import pwd
import tarfile
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest
from api_fixtures import ApiFixture, open_api
from executor_harnesses import DialInHarness
from httpx import ASGITransport, AsyncClient, Response
from waiting import until

from volvelle.live import uploads
from volvelle.live.agent.job_users import give_as_it_is
from volvelle.live.http import request_limits
from volvelle.live.messages import Outcome, Stop
from volvelle.live.uploads import UnusableUploadError, Uploads, digest_of, pack, unpack
from volvelle.model.problems import Problem

pytest_plugins = ["api_fixtures"]


nobody = partial(give_as_it_is, None)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "run.sh").write_text("#!/bin/sh\ncat src/hello\n")
    (project / "run.sh").chmod(0o755)
    (project / "src" / "hello").write_text("hello\n")
    (project / "src" / "link").symlink_to("hello")
    (project / ".git").mkdir()
    (project / ".git" / "config").write_text("[core]\n")
    return project


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[DialInHarness]:
    with DialInHarness(tmp_path / "cluster") as harness:
        yield harness


def test_what_is_packed_is_unpacked_without_git_and_once(project: Path, tmp_path: Path) -> None:
    content = pack(project)
    assert pack(project) == content
    uploads, there = Uploads(tmp_path / "kept"), tmp_path / "job" / "workdir"
    unpack(uploads.keep(digest_of(content), content), there, nobody)
    found = {str(path.relative_to(there)) for path in there.rglob("*")}
    assert found == {"run.sh", "src", "src/hello", "src/link"}
    assert (there / "src" / "link").read_text() == "hello\n"
    assert os.access(there / "run.sh", os.X_OK)
    (there / "src" / "hello").write_text("changed by the job")
    unpack(tmp_path / "kept" / digest_of(content), there, nobody)
    assert (there / "src" / "hello").read_text() == "changed by the job"
    assert [path.name for path in there.parent.iterdir()] == ["workdir"]
    assert {path.name for path in tmp_path.iterdir()} == {"project", "kept", "job"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_what_is_unpacked_is_the_users_as_whom_the_job_runs(project: Path, tmp_path: Path) -> None:
    (project / "src" / "link").unlink()
    (project / "src" / "link").symlink_to("gone")  # what a link leads to is nobody's business
    content, user = pack(project), pwd.getpwnam("nobody")
    archive = Uploads(tmp_path / "kept").keep(digest_of(content), content)
    there = tmp_path / "job" / "workdir"
    unpack(archive, there, partial(give_as_it_is, user))
    owners = {path.lstat().st_uid for path in (there, *there.rglob("*"))}
    assert owners == {user.pw_uid}
    assert there.parent.stat().st_uid == 0
    assert os.access(there / "run.sh", os.X_OK)


def test_too_much_is_refused_and_says_how_much_would_do(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "elsewhere").symlink_to("../..")
    with pytest.raises(Problem, match="elsewhere is a link that leads out of"):
        pack(project)
    (project / "elsewhere").unlink()
    content = pack(project)
    kept = Uploads(tmp_path / "kept")
    kept.keep(digest_of(content), content)
    monkeypatch.setattr(uploads, "MAX_UPLOAD_BYTES", 1 << 20)
    (project / "data").write_bytes(b"x" * (1 << 20))
    with pytest.raises(Problem, match="project has more than 1 MiB"):
        pack(project)
    with pytest.raises(Problem, match="is not the content with the hash"):
        kept.keep(digest_of(b"other"), content)
    monkeypatch.setattr(uploads, "_MAX_KEPT_BYTES", len(content))
    with pytest.raises(Problem, match="are uploaded already"):
        kept.keep(digest_of(b"other"), b"other", "ada")
    old = time.time() - 31 * 86_400
    os.utime(tmp_path / "kept" / digest_of(content), (old, old))
    kept.keep(digest_of(b"other"), b"other", "ada")
    assert kept.find(digest_of(content)) is None
    (tmp_path / "token").write_text("secret")
    assert kept.read("../token", 0, 10) is None


def test_a_user_fills_a_share_of_what_is_kept_and_the_oldest_unused_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "_MAX_KEPT_BYTES", 40)
    monkeypatch.setattr(uploads, "_MAX_KEPT_BYTES_OF_A_USER", 20)
    kept = Uploads(tmp_path)
    contents = [b"%09d\n" % number for number in range(6)]
    digests = [digest_of(content) for content in contents]

    def keep(number: int, user: str, *named: int) -> None:
        path = kept.keep(digests[number], contents[number], user, {digests[each] for each in named})
        os.utime(path, (time.time() + number - 3600,) * 2)

    keep(0, "ada")
    keep(1, "ada", 0)
    keep(2, "ada", 0)
    assert [kept.read(digest, 0, 1) is not None for digest in digests[:3]] == [True, False, True]
    for digest in (digests[0], digests[2]):  # they were read
        os.utime(tmp_path / digest, (time.time() - 3600,) * 2)
    with pytest.raises(Problem, match="of ada are uploaded already, for jobs that are not over"):
        keep(1, "ada", 0, 2)
    keep(3, "lee", 0, 2)
    keep(4, "lee", 0, 2, 3)
    keep(5, "eve", 0, 3)  # for all users there is room for four
    assert {path.name for path in tmp_path.iterdir() if not path.suffix} == {
        digests[each] for each in (0, 3, 4, 5)
    }


def test_a_job_starts_in_the_files_that_were_uploaded_on_each_of_its_nodes(
    harness: DialInHarness, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = pack(project)
    digest = digest_of(content)
    harness.context.uploads.keep(digest, content)
    harness.start(command=("./run.sh",), upload=digest, nodes=2)
    assert harness.end().outcome is Outcome.FINISHED
    for node in harness.nodes[:2]:
        assert (harness.attempt_folder(node) / "output.log").read_text() == "hello\n"
    harness.start(command=("true",), upload=digest_of(b"gone"), number=2)
    assert harness.end(2).reason == (
        "could not begin: the server does not have its working directory any more"
    )
    monkeypatch.setattr(Uploads, "read", _unreadable)
    harness.start(command=("true",), upload=digest_of(b"slow"), number=3)
    until(lambda: _READ)
    harness.send(Stop(3, 1))
    assert harness.end(3).outcome is Outcome.STOPPED


_READ: list[str] = []


def _unreadable(_: Uploads, digest: str, *__: int) -> bytes:
    _READ.append(digest)
    raise OSError("the disk hangs")


@pytest.mark.parametrize("kind", ["compressed", "sparse", "many"])
def test_what_would_unpack_to_more_than_was_uploaded_is_not_unpacked(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "_MAX_FILES", 5)
    archive = tmp_path / "archive"
    with tarfile.open(archive, "w:gz" if kind == "compressed" else "w") as tar:
        for number in range(9 if kind == "many" else 1):
            info = tarfile.TarInfo(f"file-{number}")
            if kind == "sparse":
                info.pax_headers = {"GNU.sparse.size": str(1 << 40), "GNU.sparse.map": "0,0"}
                info.pax_headers |= {"GNU.sparse.numblocks": "1"}
                tar.format = tarfile.PAX_FORMAT
            tar.addfile(info)
    with pytest.raises(UnusableUploadError, match="upload a tar that is not compressed"):
        unpack(archive, tmp_path / "job" / "workdir", nobody)
    assert list((tmp_path / "job").parent.glob("**/file-*")) == []


def test_a_job_whose_upload_is_unusable_is_not_tried_again(
    harness: DialInHarness, tmp_path: Path
) -> None:
    content = gzip.compress(bytes(1 << 20))
    harness.context.uploads.keep(digest_of(content), content)
    harness.start(command=("true",), upload=digest_of(content))
    assert harness.end().permanent
    assert not harness.end().node_failed


def test_a_job_may_name_only_what_was_uploaded(api: ApiFixture, project: Path) -> None:
    content, dana = pack(project), api.client("dana")
    place = f"/v1/uploads/{digest_of(content)}"
    job = {"command": ["./run.sh"], "upload": digest_of(content)}
    assert dana.get(place).json() == {"kept": False}
    refused = dana.post("/v1/jobs", json=job)
    assert (refused.status_code, refused.json()["place"]) == (409, "upload")
    assert dana.put(place, content=content[:-1]).status_code == 409
    assert dana.put(place, content=content).status_code == 204
    assert dana.get(place).json() == {"kept": True}
    assert dana.post("/v1/jobs", json=job).status_code == 201
    much = dana.put(place, headers={"Content-Length": str(1 << 40)}, content=b"")
    assert (much.status_code, much.json()["detail"]) == (
        413, "the body is larger than 67,108,864 bytes"
    )  # fmt: skip
    stranger = api.client().put(place, headers={"Content-Length": str(1 << 40)}, content=b"")
    assert stranger.status_code == 401


def test_uploads_of_a_user_that_send_nothing_hold_up_nobody_elses(tmp_path: Path) -> None:
    """They take a turn each, and each ends where no part of it arrives for a while."""
    content = b"a working directory"
    place, ended = f"/v1/uploads/{digest_of(content)}", asyncio.Event()

    async def ask() -> None:
        transport = ASGITransport(app=api.app)

        def put(user: str, content: AsyncIterator[bytes]) -> asyncio.Task[Response]:
            headers = {"Authorization": f"Bearer {api.tokens[user]}"}
            return asyncio.create_task(client.put(place, content=content, headers=headers))

        async def nothing() -> AsyncIterator[bytes]:
            yield content[:3]
            await ended.wait()

        async def all_of_it() -> AsyncIterator[bytes]:
            yield content

        async with AsyncClient(transport=transport, base_url="http://x") as client:
            silent = [put("dana", nothing()) for _ in range(10)]
            assert (await put("lee", all_of_it())).status_code == 204
            ended.set()
            statuses = [(await each).status_code for each in silent]
            assert statuses.count(429) == 2

    with open_api(tmp_path, request=60.0) as api:
        asyncio.run(ask())


def test_an_upload_of_which_no_part_arrives_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_limits, "_PATIENCE", 1e6)  # the whole may take long

    async def ask() -> int:
        async def one_part() -> AsyncIterator[bytes]:
            yield b"a"
            await asyncio.sleep(30.0)

        headers = {"Authorization": f"Bearer {api.tokens['dana']}"}
        transport = ASGITransport(app=api.app)
        async with AsyncClient(transport=transport, base_url="http://x") as client:
            place = f"/v1/uploads/{digest_of(b'a')}"
            return (await client.put(place, content=one_part(), headers=headers)).status_code

    with open_api(tmp_path, request=0.05) as api:
        assert asyncio.run(ask()) == 408
