"""How well attach tells: recorded runs followed from their first poll, scored by their program.

    python experiments/slurm/attach.py [--runs run1,run3] [--every 4] [--features] [--page FILE]

At each snapshot the follower sees what ``scontrol`` showed then, and tells all pending jobs; true durations
are never read. ``../shared/golden/slurm/score.py`` compares with what came, and with Slurm's own times of the
same instants. ``--features``: again with single rules of Slurm, or what is learned of run times, left out of
the mechanism. The page holds a table of each.
"""

import argparse
import csv
import importlib.util
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from conformance import GOLDEN, log_of, snapshots

from volvelle.incumbents.attach.follow import Follower
from volvelle.incumbents.attach.incumbent import Expected, Mechanism
from volvelle.incumbents.slurm.attach import incumbent
from volvelle.incumbents.slurm.forecast import foresee
from volvelle.incumbents.slurm.read_site import read_site, texts_of
from volvelle.incumbents.slurm.site import Config, Limits, Site
from volvelle.incumbents.slurm.snapshot import Snapshot

LEAST_INSTANTS = 50
"""Instants from which a class is judged by itself."""
COVERED = 0.80, 0.97
"""The share of starts by P90 that is aimed at in each class."""


def _configured(key: str, value: str) -> Callable[[Site], Site]:
    def changed(site: Site) -> Site:
        return replace(site, config=Config({**site.config.keys, key: value}))

    return changed


def _unlimited(site: Site) -> Site:
    return replace(
        site,
        qos=tuple(replace(one, limits=Limits()) for one in site.qos),
        associations=tuple(replace(one, limits=Limits()) for one in site.associations),
    )


_RULES: Mapping[str, Callable[[Site], Site]] = {
    "backfill": _configured("SchedulerType", "sched/builtin"),
    "multifactor priority": _configured("PriorityType", "priority/basic"),
    "preemption": _configured("PreemptType", "preempt/none"),
    "limits of QOS and associations": _unlimited,
}
"""The site without a rule, by what is left out."""


def mechanisms() -> Iterator[tuple[str, Mechanism[Site, Snapshot]]]:
    """The mechanism with each feature left out, by name."""

    def by_limits(
        site: Site, snapshot: Snapshot, durations: Mapping[str, float], /
    ) -> Mapping[str, Expected]:
        return foresee(site, snapshot, {})

    yield "learned run times", by_limits
    for name, without in _RULES.items():

        def partly(
            site: Site,
            snapshot: Snapshot,
            durations: Mapping[str, float],
            /,
            without: Callable[[Site], Site] = without,
        ) -> Mapping[str, Expected]:
            changed = replace(snapshot, associations=without(_at(site, snapshot)).associations)
            return foresee(without(site), changed, durations)

        yield name, partly

    def unreserved(
        site: Site, snapshot: Snapshot, durations: Mapping[str, float], /
    ) -> Mapping[str, Expected]:
        return foresee(site, replace(snapshot, reservations=()), durations)

    yield "reservations", unreserved


def _at(site: Site, snapshot: Snapshot) -> Site:
    """The site with the associations that a snapshot has."""
    if not snapshot.associations:
        return site
    return replace(site, associations=snapshot.associations)


def told(run: Path, table: Path, mechanism: Mechanism[Site, Snapshot], every: int) -> None:
    """Follow a run and write what is told of pending jobs at each ``every``-th snapshot."""
    site = read_site(texts_of(run))
    follower = Follower(site, replace(incumbent(), foresee=mechanism))
    with table.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["snapshot_time", "job", "predicted_start", "p90_start", "predicted_end"])
        for at, snapshot in enumerate(snapshots(log_of(run), site)):
            follower.observe(snapshot)
            if at % every == 0:
                for one in follower.tell():
                    rows.writerow([snapshot.time, one.key, one.start, one.start_p90, one.end])


@cache
def _program() -> Any:
    """The reference's own program."""
    spec = importlib.util.spec_from_file_location("score", GOLDEN / "score.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def scores(run: Path, table: Path, by: str | None = None) -> dict[str, Any]:
    """The scores of the reference's own program, by the name that it gives to a row."""
    found: dict[str, Any] = _program().score(str(run), str(table), by)
    return found


def pending(run: Path, by: str) -> dict[str, set[str]]:
    """The jobs that waited in each class of a run."""
    found: dict[str, set[str]] = defaultdict(set)
    for record in log_of(run):
        for job in _program().jobs(record["jobs"]) if record["k"] == "snap" else ():
            if job["state"] == "PENDING":
                found[job[by]].add(job["key"])
    return found


def _mean_and_median(errors: list[float]) -> str:
    ordered = sorted(errors)
    return (
        f"{sum(ordered) / len(ordered):.0f} / {ordered[len(ordered) // 2]:.0f}" if ordered else "-"
    )


def _row(name: str, run: str, one: Any) -> str:
    held = f"{one.cov / one.covn:.1%}" if one.covn else "-"
    return (
        f"| {run} | {name} | {one.n:,} | {one.none / max(one.n, 1):.0%} | {_mean_and_median(one.s)} "
        f"| {_mean_and_median(one.e)} | {held} |"
    )


def _classes(run: str, by: str, found: Mapping[str, Any]) -> Iterator[str]:
    jobs = pending(GOLDEN / run, by)
    for name, one in found.items():
        if not name.endswith("(csv)") or one.covn < LEAST_INSTANTS:
            continue
        share = one.cov / one.covn
        value = name.partition("=")[2].removesuffix(" (csv)")
        verdict = "yes" if COVERED[0] <= share <= COVERED[1] else "**no**"
        yield f"| {run} | {by} {value} | {one.covn:,} | {len(jobs[value])} | {share:.1%} | {verdict} |"


def main() -> None:
    """Follow each run, score, print the tables, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", default="run1,run3,run5")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--features", action="store_true")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build/slurm"))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    overall: list[str] = []
    classes: list[str] = []
    features: list[str] = []
    for name in asked.runs.split(","):
        run, table, began = GOLDEN / name, asked.out / f"{name}-told.csv", time.perf_counter()
        told(run, table, foresee, asked.every)
        whole = scores(run, table)
        overall += [
            _row("Slurm", name, whole["Slurm's StartTime"]),
            _row("attach", name, whole["CSV"]),
        ]
        for by in ("reason", "qos"):
            classes += _classes(name, by, scores(run, table, by))
        if asked.features:
            for left_out, mechanism in mechanisms():
                told(run, table, mechanism, asked.every)
                features.append(_row(left_out, name, scores(run, table)["CSV"]))
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    head = "| run | {} | instants | no answer | start error, mean / median s | end error | started by P90 |"
    page = [
        "# Times told beside recorded runs of Slurm",
        "",
        f"By `{' '.join(['python', 'experiments/slurm/attach.py', *sys.argv[1:]])}`: all pending jobs at the"
        " snapshots. Run times are learned as the run goes on.",
        "",
        head.format("told by"),
        "|---|---|---|---|---|---|---|",
        *overall,
        "",
        f"Classes of {LEAST_INSTANTS} instants or more; the aim is {COVERED[0]:.0%} to {COVERED[1]:.0%}:",
        "",
        "| run | class | instants | jobs | started by P90 | within |",
        "|---|---|---|---|---|---|",
        *classes,
    ]
    if features:
        page += ["", head.format("without"), "|---|---|---|---|---|---|---|", *features]
    print("\n".join(page))
    if asked.page is not None:
        asked.page.parent.mkdir(parents=True, exist_ok=True)
        asked.page.write_text("\n".join(page) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
