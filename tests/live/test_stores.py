"""The contract of every registered store."""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from databases import Server, postgresql
from fake_cluster import ControllerHarness, FakeCluster, FakeExecutor, header_of, sleeping
from sqlalchemy import event, inspect, make_url, text
from waiting import until

from volvelle.core.decision import Decision
from volvelle.core.events import JobSubmitted, WakeUp
from volvelle.core.journal import Entry, read_journal
from volvelle.live.control.controller import Controller
from volvelle.live.control.recovery import restore_calibration
from volvelle.live.control.requests import Submit
from volvelle.live.control.state import ControllerState
from volvelle.live.messages import AttemptStarted
from volvelle.live.nodes.executor import ExecutorContext
from volvelle.live.records import NodeDrained
from volvelle.live.store import (
    CycleBatch,
    FirstForecast,
    JobEnd,
    JobRecord,
    Store,
    StoredEntry,
    StoreFailed,
    Submission,
    Superseded,
    Token,
)
from volvelle.live.store.backends import backends
from volvelle.live.store.schema import VERSION, metadata
from volvelle.model.cluster import parse_cluster
from volvelle.model.job import JobSpec
from volvelle.model.problems import Problem


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgresql() as server:
        yield server


@pytest.fixture(params=sorted(backends))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store of each kind, empty."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    server: Server = request.getfixturevalue("server")
    yield server.url
    engine = backends[request.param](make_url(server.url)).engine()
    with engine.begin() as connection:
        connection.execute(text("drop schema public cascade"))
        connection.execute(text("create schema public"))
    engine.dispose()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = Store.open(url)
    store.claim()
    yield store
    store.close()


def record(number: int, user: str = "ada") -> JobRecord:
    return JobRecord(
        number=number,
        user=user,
        name="it's; drop table jobs --",
        position=0,
        request={"command": ["sleep", "5"], "environment": {"A": 'ä "quoted" \\ ☃'}},
        submitted=1000.0 + number,
    )


def batch(seq: int, *accepted: JobRecord, ended: tuple[JobEnd, ...] = ()) -> CycleBatch:
    entry = Entry(float(seq), (WakeUp(float(seq)),), Decision(wake_at=seq + 0.1))
    records = (AttemptStarted(seq, 1), NodeDrained("node-0", True))
    return CycleBatch(StoredEntry(seq, entry, records), accepted, (), ended)


def test_appended_entries_are_read_in_order(store: Store) -> None:
    for seq in range(5):
        store.append(batch(seq))
    found = list(store.entries())
    assert [stored.seq for stored in found] == [0, 1, 2, 3, 4]
    assert found[3] == batch(3).entry
    assert [stored.seq for stored in store.entries(after=2)] == [3, 4]


def test_a_repeated_append_changes_nothing(store: Store) -> None:
    store.append(batch(0, record(0)))
    store.append(batch(0, record(0)))
    assert len(list(store.entries())) == len(list(store.jobs.list_unfinished())) == 1


def test_an_append_is_atomic(store: Store) -> None:
    store.append(batch(0, record(0)))
    with pytest.raises(StoreFailed):
        store.append(batch(1, record(1), record(0)))  # the number is taken
    assert [stored.seq for stored in store.entries()] == [0]
    assert store.jobs.find(1) is None


def test_jobs_are_stored_when_accepted_and_when_ended(store: Store) -> None:
    end = JobEnd(number=1, state="failed", reason="so", ended=9.0, status={"number": 1})
    store.append(batch(0, record(0), record(1), record(2, "bo")))
    store.append(batch(1, ended=(end,)))
    store.jobs.write_first_forecasts([FirstForecast(0, 1.0, 2.0, None, 0.5)])
    assert store.jobs.find(0) is not None
    assert store.jobs.find(0) == JobRecord(
        **vars(record(0)) | {"forecast_start": 0.5, "forecast_finish": 1.0, "first_p50": 2.0}
    )
    assert [job.number for job in store.jobs.list_unfinished()] == [0, 2]
    assert [job.number for job in store.jobs.list_latest()] == [2, 1, 0]
    assert [job.number for job in store.jobs.list_latest(user="ada", limit=1)] == [1]
    assert [job.number for job in store.jobs.list_latest(before=2, states=["failed"])] == [1]
    ended = store.jobs.find(1)
    assert ended is not None
    assert (ended.state, ended.reason, ended.status) == ("failed", "so", {"number": 1})
    assert store.jobs.find(99) is None


def test_a_restored_calibration_knows_when_jobs_ended(store: Store) -> None:
    """Forty jobs forecast to finish 200 s after their submission finished after 300."""
    jobs = [record(number) for number in range(40)]
    ends = tuple(
        JobEnd(
            number=job.number,
            state="finished",
            reason="",
            ended=job.submitted + 300.0,
            status={},
        )
        for job in jobs
    )
    store.append(batch(0, *jobs))
    store.append(batch(1, ended=ends))
    store.jobs.write_first_forecasts(
        FirstForecast(one.number, one.submitted + 200.0, None, None, one.submitted + 100.0)
        for one in jobs
    )
    header = header_of(parse_cluster("1x1"))
    state = ControllerState(header, 0.0)
    state.scheduler.now = 2000.0
    spec = JobSpec(id="40", submit_time=2000.0, gpus=1.0, estimate_seconds=100.0)
    state.scheduler.handle(2000.0, [JobSubmitted(2000.0, 40, spec)])
    calibration = restore_calibration(store, state)
    told = calibration.ask(state.scheduler, 40, 2100.0, 2200.0)
    assert told.start == pytest.approx(2150.0, rel=0.01)
    assert told.p50 == pytest.approx(2300.0, rel=0.01)


def test_submissions_are_found_by_user_and_key(store: Store) -> None:
    one = Submission("ada", "k", 0, 2)
    store.append(CycleBatch(batch(0).entry, (record(0), record(1)), (one,)))
    keys = [("ada", "k"), ("bo", "k"), ("ada", "l")]
    assert store.jobs.find_submissions(keys) == {("ada", "k"): one}
    assert store.jobs.find_submissions([]) == {}


def test_tokens_are_kept_until_they_are_revoked(store: Store) -> None:
    token = Token("d" * 64, "ada", "user", "laptop", 5.0)
    store.tokens.add(token)
    assert store.tokens.find(token.digest) == token
    assert store.tokens.list_all() == [token]
    assert store.tokens.revoke(token.digest)
    assert not store.tokens.revoke("e" * 64)
    assert store.tokens.find(token.digest) is None


def test_the_header_is_stored_and_the_journal_is_exported(store: Store, tmp_path: Path) -> None:
    assert store.header() is None
    header = header_of(parse_cluster("2x4"))
    store.begin(header, 123.5)
    store.append(batch(0))
    assert store.header() == (header, 123.5)
    store.write_journal(tmp_path / "journal.jsonl")
    read, entries = read_journal(tmp_path / "journal.jsonl")
    assert (read, list(entries)) == (header, [batch(0).entry.entry])


def test_there_is_one_writer_until_it_closes(store: Store, url: str) -> None:
    second = Store.open(url)
    with pytest.raises(Problem, match="another volvelle serve is writing"):
        second.claim()
    store.close()
    second.claim()
    second.append(batch(0))
    second.close()


def test_a_superseded_writer_writes_no_more(store: Store, url: str) -> None:
    store.append(batch(0))
    store._database.backend.unlock()  # as where its connection to a server broke
    second = Store.open(url)
    second.claim()
    with pytest.raises(Superseded):
        store.append(batch(1))
    second.close()


def test_the_migrations_make_the_tables_of_the_schema(store: Store) -> None:
    found = inspect(store._database.engine)
    for table in metadata.sorted_tables:
        columns = {column["name"]: column for column in found.get_columns(table.name)}
        assert set(columns) == {column.name for column in table.columns}
        for column in table.columns:
            assert columns[column.name]["nullable"] == column.nullable, (table.name, column.name)
        indexes = {index["name"] for index in found.get_indexes(table.name)}
        assert indexes >= {index.name for index in table.indexes}


def test_a_store_of_a_newer_version_is_refused(store: Store, url: str) -> None:
    with store._database.engine.begin() as connection:
        connection.execute(text("update alembic_version set version_num = '99'"))
    with pytest.raises(Problem, match="the store is of version 99"):
        Store.open(url)


def test_migrations_follow_each_other_up_to_the_version_of_the_schema() -> None:
    steps = list(ScriptDirectory.from_config(_alembic()).walk_revisions())
    assert [step.revision for step in reversed(steps)] == [
        str(number) for number in range(6, int(VERSION) + 1)
    ]


def test_a_store_of_the_oldest_version_is_brought_up_to_date_and_loses_nothing(url: str) -> None:
    """The store is made by the first migration and filled by raw SQL of that version."""
    engine = backends[make_url(url).get_backend_name()](make_url(url)).engine()
    with engine.begin() as connection:
        config = _alembic()
        config.attributes["connection"] = connection
        command.upgrade(config, "6")
        for statement, row in _OF_THE_OLDEST_VERSION.items():
            connection.execute(text(statement), row)
    engine.dispose()
    store = Store.open(url)
    found = store.header()
    assert found is not None
    assert (found[0].cluster, found[1]) == (parse_cluster("1x2"), 5.0)
    (stored,) = store.entries()
    assert (stored.entry.time, stored.records) == (1.5, (NodeDrained("node-0", True),))
    job = store.jobs.find(7)
    assert job is not None
    assert (job.user, job.request, job.state) == ("ada", {"command": ["true"]}, None)
    assert store.jobs.find_submissions([("ada", "k")]) == {
        ("ada", "k"): Submission("ada", "k", 7, 1, "d")
    }
    assert [token.user for token in store.tokens.list_all()] == ["ada"]
    store.close()


_OF_THE_OLDEST_VERSION: dict[str, dict[str, object]] = {
    "insert into header values (0, 5.0, :body)": {
        "body": msgspec.json.encode(header_of(parse_cluster("1x2"))).decode()
    },
    "insert into entries values (0, 1.5, :body, :records, :digest)": {
        "body": '{"time":1.5,"events":[],"decision":{}}',
        "records": '[{"type":"node-drained","name":"node-0","drained":true}]',
        "digest": "c5addba7b0fb5a1cb05dd1fbbd12029d",
    },
    """insert into jobs (number, "user", name, position, request, submitted, identity)
       values (7, 'ada', 'x', 0, :request, 6.0, 'i')""": {"request": '{"command":["true"]}'},
    "insert into submissions values ('ada', 'k', 7, 1, 'd')": {},
    "insert into tokens values ('d', 'ada', 'user', '', 1.0, false, null)": {},
}


def _alembic() -> Config:
    config = Config()
    config.set_main_option("script_location", "volvelle.live.store:migrations")
    return config


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("mysql://x/y", "stores of kind 'mysql' are not known"),
        ("postgresq://x/y", "postgresq"),
        ("/nowhere/at/all/store.db", "there is no folder /nowhere/at/all"),
        ("postgresql://nobody@127.0.0.1:1/x", "cannot open the store"),
    ],
)
def test_an_invalid_store_url_is_refused_with_the_reason(url: str, error: str) -> None:
    with pytest.raises(Problem, match=error):
        Store.open(url)


# ---------------------------------------------------------------------- stores that fail


def controller_on(url: str, folder: Path) -> Controller:
    cluster = parse_cluster("1x2")
    fake_cluster = FakeCluster(cluster, up={"node-0"})
    context = ExecutorContext(cluster, folder, "")
    controller = Controller(
        Store.open(url), header_of(cluster), FakeExecutor(fake_cluster=fake_cluster), context
    )
    controller.start()
    return controller


def test_a_full_disk_delays_all_answers_until_there_is_space(tmp_path: Path) -> None:
    controller = controller_on(str(tmp_path / "store.db"), tmp_path)
    try:
        controller.request(Submit("ada", sleeping(50))).result(10.0)
        limit = _limited(controller.store, pages=0)
        answers = [controller.request(Submit("ada", sleeping(50, array=1000))) for _ in range(3)]
        with pytest.raises(TimeoutError):
            answers[0].result(1.0)
        until(lambda: any("disk is full" in problem for problem in controller.health.problems))
        assert not controller.health.ready
        assert len(controller.status.jobs) == 1
        limit(10_000)
        assert sum(len(answer.result(10.0)) for answer in answers) == 3000
        assert controller.health.ready
    finally:
        controller.stop()
    assert len(list(Store.open(str(tmp_path / "store.db")).jobs.list_unfinished())) == 3001


def test_a_controller_stops_though_its_store_fails_and_rejects_what_was_not_stored(
    tmp_path: Path,
) -> None:
    controller = controller_on(str(tmp_path / "store.db"), tmp_path)
    controller.request(Submit("ada", sleeping(50))).result(10.0)
    _limited(controller.store, pages=0)
    answer = controller.request(Submit("ada", sleeping(50, array=1000)))
    until(lambda: not controller.health.ready)
    controller.stop()
    with pytest.raises(Problem, match="does not answer for this"):
        answer.result(1.0)
    assert [
        job.number for job in Store.open(str(tmp_path / "store.db")).jobs.list_unfinished()
    ] == [0]


def _limited(store: Store, pages: int) -> Callable[[int], None]:
    """Limit the growth of the file to so many pages; returns a function that changes the limit."""
    most = 0

    def set_limit(connection: sqlite3.Connection, *_: object) -> None:
        count = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={count + most}")

    def let_grow(pages: int) -> None:
        nonlocal most
        most = pages
        store._database.engine.dispose()

    event.listen(store._database.engine, "connect", set_limit)
    let_grow(pages)
    return let_grow


def test_the_store_waits_for_a_stopped_database_server(tmp_path: Path) -> None:
    with postgresql() as server:
        controller = controller_on(server.url, tmp_path)
        try:
            controller.request(Submit("ada", sleeping(50))).result(10.0)
            server.stop()
            answer = controller.request(Submit("ada", sleeping(50)))
            with pytest.raises(TimeoutError):
                answer.result(1.0)
            assert not controller.health.ready
            server.start()
            assert answer.result(20.0) == (1,)
            assert controller.health.ready
            with pytest.raises(Problem, match="another volvelle serve is writing"):
                Store.open(server.url).claim()
        finally:
            controller.stop()


@pytest.mark.parametrize("another", [False, True])
def test_a_store_whose_file_was_removed_or_replaced_acknowledges_nothing(
    tmp_path: Path, another: bool
) -> None:
    harness = ControllerHarness.at(tmp_path)
    for file in tmp_path.glob("store.db*"):
        file.unlink()
    if another:
        Store.open(str(tmp_path / "store.db")).close()
    answer = harness.controller.request(Submit("ada", sleeping(5)))
    with pytest.raises(Superseded, match="was removed, or another file is in its place"):
        harness.deliver()
    assert not answer.done()
    with pytest.raises(Superseded):  # also where nothing is to be written
        harness.controller.step()
