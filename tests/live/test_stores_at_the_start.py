"""Stores that a server meets at its start: of earlier versions, of later ones, damaged, on a full disk."""

import ast
import hashlib
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from fake_cluster import (
    ControllerHarness,
    FakeCluster,
    FakeExecutor,
    header_of,
    open_controller,
    sleeping,
)
from sqlalchemy import Column, Integer, MetaData, Table

from volvelle.live.control.controller import Controller
from volvelle.live.control.requests import Submit
from volvelle.live.control.snapshots import FORMAT
from volvelle.live.nodes.executor import ExecutorContext
from volvelle.live.store import Store, upgrade
from volvelle.live.store.database import backend_of
from volvelle.live.store.migrations import versions as migrations
from volvelle.model.cluster import parse_cluster
from volvelle.model.problems import Problem
from volvelle.testing.scenario import state_of

EARLIER = Path(__file__).parent / "stores" / "v6.sql"
"""A store of version 6, with a snapshot of format 3."""

MIGRATIONS = {
    "v6_first": "041a72d157c119e1",
    "v7_forecast_starts": "427babd78284932b",
}
"""A digest of each migration's code."""


def test_a_store_of_an_earlier_version_goes_on_as_it_was(tmp_path: Path) -> None:
    """Its snapshot, of an earlier format, gives way to the journal."""
    _write_earlier(tmp_path)
    cluster = parse_cluster("2x2")
    fake_cluster = FakeCluster(cluster, now=1_000_013.0, up={node.name for node in cluster.nodes})
    header = header_of(cluster, "las:round=3", estimator="measured")
    controller = open_controller(tmp_path, fake_cluster, header)
    harness = ControllerHarness(tmp_path, fake_cluster, header, controller)
    (said,) = controller.warnings
    assert f"is not used: it is of format 3, this Volvelle reads format {FORMAT}" in said
    jobs = {job.number: job.state.value for job in controller.status.jobs.values()}
    assert jobs[2] == "held"
    assert set(jobs) == {1, 2, 3, 5, 6}
    cancelled = controller.store.jobs.find(4)
    assert cancelled is not None
    assert (cancelled.user, cancelled.state) == ("bob", "cancelled")
    before = controller.request(Submit("ada", sleeping(9, 2, name="of-9"), key="key-9-2"))
    harness.deliver()
    assert before.result(0.0) == (1,)
    for _ in range(150):
        harness.step(1.0)
    assert {job.state.value for job in harness.controller.status.jobs.values()} == {"held"}
    harness.crash()
    assert not harness.controller.warnings


def test_a_store_of_an_earlier_version_is_copied_before_it_is_upgraded(tmp_path: Path) -> None:
    _write_earlier(tmp_path)
    before = _dump(tmp_path / "store.db")
    store = Store.open(str(tmp_path / "store.db"))
    store.tokens.list_all()
    store.close()
    (copy,) = tmp_path.glob("store.db.version-*")
    assert _dump(copy) == before != _dump(tmp_path / "store.db")


def test_an_upgraded_store_has_the_tables_of_a_new_one(tmp_path: Path) -> None:
    _write_earlier(tmp_path)
    upgraded, new = tmp_path / "store.db", tmp_path / "new.db"
    for path in (upgraded, new):
        Store.open(str(path)).close()
    assert _shape(upgraded) == _shape(new)


def test_an_upgrade_that_fails_leaves_the_store_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write_earlier(tmp_path)
    before = _dump(tmp_path / "store.db")
    lacking = Table("jobs", MetaData(), Column("never", Integer))
    monkeypatch.setattr(upgrade, "metadata", lacking.metadata)
    with pytest.raises(Problem, match="its table jobs has no never"):
        Store.open(str(tmp_path / "store.db"))
    assert _dump(tmp_path / "store.db") == before


def test_a_store_that_is_in_use_is_not_upgraded(tmp_path: Path) -> None:
    _write_earlier(tmp_path)
    writer = backend_of(str(tmp_path / "store.db"))
    assert writer.lock()
    with pytest.raises(Problem, match="another volvelle serve writes to it"):
        Store.open(str(tmp_path / "store.db"))
    writer.unlock()


def test_migrations_are_as_they_were_when_stores_were_made_by_them() -> None:
    """A released migration is never edited: another one follows. Docstrings and comments may change."""
    found = {}
    for path in Path(migrations.__file__).parent.glob("v*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node):
                del node.body[0]
        found[path.stem] = hashlib.sha256(ast.unparse(tree).encode()).hexdigest()[:16]
    assert found == MIGRATIONS


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("update alembic_version set version_num = '99'", "is of version 99, this Volvelle knows"),
        ("update alembic_version set version_num = 'x'", "is of version x, this Volvelle knows"),
        ("delete from alembic_version", "is of version nothing, this Volvelle knows"),
        ("drop table alembic_version", "cannot open the store"),
        ("drop table entries", "no such table: entries"),
        ("update header set body = replace(body, '\"format\":1', '\"format\":9')", "of format 9"),
    ],
)
def test_a_store_of_an_unknown_version_is_refused(
    change: str, message: str, tmp_path: Path
) -> None:
    harness = ControllerHarness.at(tmp_path)
    with harness.controller.store._database.engine.begin() as connection:
        connection.exec_driver_sql(change)
    with pytest.raises(Problem, match=message):
        harness.crash(snapshot=False)


def test_a_page_that_was_overwritten_is_never_taken_for_what_was_there(tmp_path: Path) -> None:
    """Each page of a store in turn; a page that nobody reads at the start may pass."""
    harness = ControllerHarness.at(tmp_path, "1x2")
    for _ in range(6):
        harness.controller.request(Submit("ada", sleeping(20.0)))
        harness.step(1.0)
    state = harness.controller._cycle.state
    before = state_of(state.scheduler), {n: job.request for n, job in state.jobs.items()}
    harness.controller.stop()
    written = (tmp_path / "store.db").read_bytes()
    refused = 0
    for page in range(len(written) // 4096):
        damaged = bytearray(written)
        damaged[page * 4096 : (page + 1) * 4096] = b"\xa5" * 4096
        for journal in tmp_path.glob("store.db-*"):
            journal.unlink()
        (tmp_path / "store.db").write_bytes(damaged)
        try:
            again = _open(tmp_path, harness.fake_cluster)
        except Problem:
            refused += 1
            continue
        found = again._cycle.state
        assert (state_of(found.scheduler), {n: j.request for n, j in found.jobs.items()}) == before
        again.store.close()
    assert refused > 5


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_text("This is a letter, and it is long enough to be a database.")
    with pytest.raises(Problem, match="file is not a database"):
        Store.open(str(tmp_path / "store.db"))


def test_a_disk_that_is_full_at_the_start_is_said(tmp_path: Path) -> None:
    """However far a start comes: at some size of the disk it succeeds, below that it says why not."""
    fake_cluster = FakeCluster(parse_cluster("1x2"), up={"node-0"})
    said = []
    for kilobytes in (0, 8, 64, 72, 80, 88, 96, 4096):
        folder = tmp_path / str(kilobytes)
        folder.mkdir()
        try:
            with _disk_of(kilobytes):
                store = Store.open(str(folder / "store.db"))
                context = ExecutorContext(fake_cluster.cluster, folder, "")
                executor = FakeExecutor(fake_cluster=fake_cluster)
                Controller(store, header_of(fake_cluster.cluster), executor, context).open()
                store.close()
            said.append("")
        except Problem as problem:
            said.append(str(problem))
    assert "cannot open the store" in said[0]
    assert any("the store cannot be used" in each for each in said)
    assert not said[-1]


@contextmanager
def _disk_of(kilobytes: int) -> Iterator[None]:
    """No file may become larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes * 1024, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _open(folder: Path, fake_cluster: FakeCluster) -> Controller:
    return open_controller(folder, fake_cluster, header_of(fake_cluster.cluster))


def _write_earlier(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "store.db")) as connection:
        connection.executescript(EARLIER.read_text())


def _dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def _shape(path: Path) -> frozenset[tuple[str, str]]:
    """The columns of a store."""
    query = "select m.name, c.name from sqlite_master m, pragma_table_info(m.name) c"
    with closing(sqlite3.connect(path)) as connection:
        return frozenset(connection.execute(query))
