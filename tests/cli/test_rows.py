"""Tables of a server's rows, on terminals of any width."""

from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from volvelle.cli import formatting, jobs
from volvelle.cli.explaining import course
from volvelle.cli.nodes import _format_free
from volvelle.cli.options import Form
from volvelle.cli.rows import Head, table
from volvelle.cli.submitted import print_forecast
from volvelle.live.job_request import JobRequest
from volvelle.live.status.view import Guarantee, JobState, JobStatusView

HEADS = [
    Head("job", lambda row: str(row["job"]), right=True),
    Head("name", lambda row: row["name"]),
    Head("reason", lambda row: row["reason"]),
]
ROWS = [
    {"job": 12, "name": "n" * 60, "reason": "waits for 8 GPUs: 5 free, most on gpu03 (5)"},
    {"job": 7, "name": "bert", "reason": ""},
]


def test_a_pipe_gets_everything_in_one_line_a_row() -> None:
    lines = table(ROWS, HEADS).splitlines()
    assert len(lines) == 3
    assert lines[1].endswith(f"{'n' * 60}  waits for 8 GPUs: 5 free, most on gpu03 (5)")


def test_a_wide_terminal_has_the_reason_last_and_long_names_cut() -> None:
    header, first, second = table(ROWS, HEADS, 100).splitlines()
    assert header == "job  name                      reason"
    assert first == f" 12  {'n' * 23}…  waits for 8 GPUs: 5 free, most on gpu03 (5)"
    assert second == "  7  bert"


def test_a_narrow_terminal_has_the_reason_on_a_line_of_its_own_and_no_line_too_long() -> None:
    lines = table(ROWS, HEADS, 40).splitlines()
    assert lines == [
        "job  name",
        "     reason",
        f" 12  {'n' * 23}…",
        "     waits for 8 GPUs: 5 free, most on …",
        "  7  bert",
    ]
    assert max(map(len, lines)) <= 40


def test_an_end_says_its_state_once_and_a_start_to_come_is_not_past() -> None:
    job = {"state": "failed", "reason": "failed: exit code 2", "submitted": 0.0, "ended": 5.0}
    assert formatting.format_end(job) == "failed after 5s: exit code 2"
    twice = job | {"reason": "failed 2 times: exit code 2"}
    assert formatting.format_end(twice) == "failed 2 times after 5s: exit code 2"
    assert formatting.format_end(job | {"state": "cancelled", "reason": "cancelled"}) == (
        "cancelled after 5s"
    )
    assert formatting.format_reason(job | {"profile": None}) == "exit code 2"
    cancelled = job | {"state": "cancelled", "reason": "cancelled", "profile": None}
    assert formatting.format_reason(cancelled) == ""
    now = datetime.fromtimestamp(7200.0, UTC)
    waiting = {"started": None, "state": "waiting", "predicted_start": 3600.0}
    assert formatting.format_start(waiting, now) == "~02:00:00"
    over: dict[str, Any] = {"ended": None, "predicted_p50": 3600.0, "predicted_p90": 3601.0}
    over |= {"guessed": False}
    over |= {"guarantee": None, "due": None, "state": "running", "predicted_start": None}
    assert formatting.format_finish(over, now) == "02:00:00, longer than expected"
    late = formatting.format_finish(over | {"predicted_p90": 7500.0}, now)
    assert late == "02:00:00-02:05:00, longer than expected"
    overrun = over | {"started": 7000.0, "believed_end": 7050.0, "predicted_p50": 7400.0}
    said = formatting.format_finish(overrun | {"predicted_p90": 9000.0}, now)
    assert said == "02:03:20-02:30:00, has run 4.0 times what was believed"
    waits = over | waiting | {"predicted_p50": 3610.0, "predicted_p90": 3670.0}
    assert formatting.format_finish(waits, now) == "02:00:10-02:01:10", "as much later as its start"
    needed = formatting.format_deadline(waits | {"due": 7205.0}, now)
    assert needed == "deadline 02:00:05, expected 5s too late"
    forecast = {"start": None, "p50": 3600.0, "p90": 7500.0, "guessed": False}
    said = formatting.format_forecast(forecast, now)
    assert said == "finishes 02:00:00 (P50) to 02:05:00 (P90), longer than expected"


def test_a_revoked_guarantee_is_seen_in_the_queue_and_an_end_has_its_course() -> None:
    now = datetime.fromtimestamp(7200.0, UTC)
    job: dict[str, Any] = {
        "ended": None,
        "predicted_p50": 7300.0,
        "predicted_p90": 7300.0,
        "predicted_start": None,
        "state": "waiting",
        "guessed": False,
    }
    job |= {"due": None, "guarantee": {"finish_by": None, "revoked": 7205.0}}
    assert formatting.format_finish(job, now) == "02:01:40, guarantee of 02:00:05 revoked"
    over = {"state": "finished", "submitted": 6600.0, "first_started": 6700.0, "ended": 7190.0}
    over |= {
        "waited_for": "waits for 8 GPUs: 2 free",
        "ran_on": {"a": 1, "b": 2},
        "first_p50": 7100.0,
    }
    over |= {"preemptions": 2, "failures": 1}
    assert course(over, now) == (
        "It waited 1m 40s (waits for 8 GPUs: 2 free), started 01:51:40 and ran on a, b, was stopped for "
        "others 2 times, failed once. It finished 1m 30s later than told at its submission (01:58:20)."
    )
    never = {"state": "cancelled", "first_started": None, "due": 7200.0}
    assert course(never, now) == "It never started."
    assert formatting.format_deadline(never, now) == "deadline 02:00:00"


class Asked(dict[str, Any]):
    """A row of the server's answer: what was not asked for is not there, and looking for it is a mistake."""

    def get(self, key: str, default: Any = None) -> Any:
        return self[key]


def test_the_queue_asks_for_all_that_its_columns_read() -> None:
    now = datetime.fromtimestamp(7200.0, UTC)
    job = JobStatusView(
        number=7, name="bert", user="dana", state=JobState.WAITING, gpus=8, submitted=0.0,
        request={}, predicted_start=7250.0, predicted_p50=7300.0, predicted_p90=7400.0, due=7280.0,
        total_iterations=4, iterations=1,
    )  # fmt: skip
    held = replace(job, guarantee=Guarantee(finish_by=7290.0), due=None)
    revoked = replace(job, guarantee=Guarantee(finish_by=None, revoked=7290.0))
    rows = [
        Asked({key: each[key] for key in jobs._SHOWN_KEYS})
        for each in map(asdict, (job, held, revoked))
    ]
    finishes = [
        line for line in table(rows, jobs._queue_heads(now, {})).splitlines() if "bert" in line
    ]
    assert "02:01:40-02:03:20, expected 20s too late" in finishes[0]
    assert "guaranteed by 02:01:30, expected 10s too late" in finishes[1]
    assert "guarantee of 02:01:30 revoked, expected 20s too late" in finishes[2]


def test_gpus_of_a_node_that_takes_no_jobs_are_not_free() -> None:
    assert [_format_free({"state": state, "free": 4}) for state in ("up", "draining", "down")] == [
        "4",
        "-",
        "-",
    ]


def test_a_forecast_without_an_estimate_says_that_all_of_it_is_a_guess() -> None:
    now = datetime.fromtimestamp(0.0, UTC)
    forecast = {"start": 0.0, "p50": 60.0, "p90": 90.0, "guessed": True}
    assert formatting.format_forecast(forecast, now).endswith("; P90 is a guess")
    said = formatting.format_forecast(forecast, now, estimated=False)
    assert said.endswith("; guesses without --estimate")


def test_a_deadline_that_does_not_hold_says_by_how_much_and_which_would(
    capsys: pytest.CaptureFixture[str],
) -> None:
    request = JobRequest(command=("train",), estimate=3600.0, deadline=600.0)
    now = datetime.now(UTC).timestamp()
    forecast: dict[str, Any] = {"start": now, "p50": now + 3600.0, "p90": now + 7200.0}
    forecast |= {
        "guessed": False,
        "deadline_share": 0.02,
        "rejected": 0,
        "guaranteed": 0,
        "reason": "",
    }
    print_forecast(forecast | {"guarantee": None}, request, Form.TABLE)
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith(": missed by 50m 00s (P50), 2% of jobs like it would be in time")
    assert (
        second == "a deadline of 1h 00m is kept by half of such jobs, one of 2h 00m by nine of ten"
    )


def test_a_guarantee_is_said_in_place_of_the_share_of_jobs_like_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    request = JobRequest(command=("train",), estimate=3600.0, deadline=7200.0)
    now = datetime.now(UTC).timestamp()
    forecast: dict[str, Any] = {"start": now, "p50": now + 3600.0, "p90": now + 9000.0}
    forecast |= {"guessed": False, "deadline_share": 0.77, "rejected": 0, "guaranteed": 1}
    guarantee = {"finish_by": now + 7200.0, "earliest": None, "reason": ""}
    print_forecast(forecast | {"reason": "", "guarantee": guarantee}, request, Form.TABLE)
    said = capsys.readouterr().out
    assert "guaranteed by " in said
    assert "jobs like it" not in said


def test_a_job_that_waits_for_a_reason_is_not_said_to_start_now(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = datetime.now(UTC).timestamp()
    forecast: dict[str, Any] = {"start": now, "p50": now + 60.0, "p90": now + 60.0, "ahead": 0}
    forecast |= {"guessed": False, "deadline_share": None, "rejected": 0, "guaranteed": 0}
    reason = "waits for 2 GPUs: 0 free"
    request = JobRequest(command=("train",), estimate=60.0)
    print_forecast(forecast | {"reason": reason, "guarantee": None}, request, Form.TABLE)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("starts at any moment, ")
    assert second == reason
