"""Blox, figure 4: completion times under Tiresias beside those of its authors' simulator.

Blox shows that both have the same distribution on the trace of 60 jobs. Here: on that trace and on two of
Philly's durations, with the authors' limits of two queues, job by job. ``tiresias`` follows the paper,
``tiresias-simulator`` what their simulator does where the paper says otherwise. GPUs are counted, starts and
stops are free. Needs the reference results kept beside the repository.
"""

import csv
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
from study import SHARED, Claim, Floats, Report, options

from volvelle.core.composition import WrittenComposition
from volvelle.report.charts import Axis, Plot, Series, cdf, line_chart
from volvelle.simulate.run import Setting, simulate
from volvelle.workload.readers.clusters import read_cluster_table
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload

GOLDEN = SHARED / "golden" / "tiresias"
TRACES = {"60": "n32g4", "philly200": "n12g8", "philly1000": "n16g8"}
"""With the clusters of 4 or 8 GPUs a node that the reference was run on."""
LIMITS = "limits=3250/7200"
POLICIES = ("tiresias", "tiresias-simulator")
SAME = 0.01
"""Two distributions of completion times are called the same that are nowhere further apart."""


def main() -> None:
    given = options(__doc__, jobs=1000, seeds=1)
    if not GOLDEN.is_dir():
        raise SystemExit(f"skipped: this experiment needs the reference results in {GOLDEN}")
    every = {trace: _reference(trace) for trace in TRACES}
    theirs = {trace: jct for trace, jct in every.items() if len(jct) <= given.jobs}
    if not theirs:
        fewest = min(map(len, every.values()))
        raise SystemExit(f"error: no trace has {given.jobs} jobs; --jobs of at least {fewest}")
    whole = replace(given, jobs=max(map(len, theirs.values())) - 1, before=0.0, coming=1.0)
    report = Report(
        "tiresias_jct", "Tiresias and its simulator (Blox, section 4.1, figure 4)", whole
    )
    ours = {(t, policy): _completion(t, policy, theirs[t]) for t in theirs for policy in POLICIES}
    apart = {key: _apart(jct, theirs[key[0]].values()) for key, jct in ours.items()}
    exact = {key: _same(jct, theirs[key[0]].values()) for key, jct in ours.items()}
    report.say(
        "Mean JCT, how far the distributions are apart at most, and the jobs that end to the second:"
    )
    report.table(
        ("trace", "cluster", "jobs", "its simulator", *POLICIES),
        [
            (
                trace,
                TRACES[trace],
                f"{len(theirs[trace]):,}",
                f"{np.mean(list(theirs[trace].values())):,.0f} s",
                *(
                    f"{ours[trace, p].mean():,.0f} s, {100 * apart[trace, p]:.1f} %, "
                    f"{100 * exact[trace, p]:.0f} % of jobs"
                    for p in POLICIES
                ),
            )
            for trace in theirs
        ],
    )
    first, *others = theirs
    matched = "the JCTs have the distribution of Tiresias' open-source simulator"
    report.claims(
        [
            _claim(f"{matched} on its trace", POLICIES[0], [first], apart),
            *(
                [_claim(f"{matched} on Philly's durations", POLICIES[0], others, apart)]
                if others
                else []
            ),
            _claim(
                "... with that simulator's departures from its paper", POLICIES[1], theirs, apart
            ),
        ]
    )
    named = {"its simulator": np.array(list(theirs[first].values()))}
    named |= {policy: ours[first, policy] for policy in POLICIES}
    columns = [
        Series.numbered(index, name, *cdf(jct)) for index, (name, jct) in enumerate(named.items())
    ]
    plot = Plot(tuple(columns), Axis("share of jobs", "share", low=0.0, high=1.0))
    report.picture(
        line_chart(
            f"Completion times, trace {first}",
            [plot],
            Axis("JCT", "duration", log=True),
            height=260,
            legend=True,
        )
    )
    report.runs(
        ("trace", "policy", "mean_jct_seconds", "apart"),
        [(*key, repr(float(jct.mean())), repr(apart[key])) for key, jct in ours.items()],
    )
    report.close()


def _claim(
    paper: str, policy: str, traces: Collection[str], apart: Mapping[tuple[str, str], float]
) -> Claim:
    seen = [f"{100 * apart[trace, policy]:.1f} % apart on {trace}" for trace in traces]
    return Claim(
        paper,
        f"at most {', '.join(seen)} ({policy})",
        max(apart[trace, policy] for trace in traces) <= SAME,
    )


def _reference(trace: str) -> dict[str, float]:
    """The simulator's completion times, seconds by id."""
    path = GOLDEN / f"{trace}__{TRACES[trace]}__count__dlas-gpu.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return {row["job_id"]: float(row["jct"]) for row in csv.DictReader(file)}


def _completion(trace: str, policy: str, wanted: Collection[str]) -> Floats:
    """Ours of the jobs that are wanted, in that order."""
    workload = Workload(read_trace(GOLDEN / f"{trace}_job.csv", "tiresias").jobs)
    setting = Setting(
        cluster=read_cluster_table(GOLDEN / "clusters" / f"{TRACES[trace]}.csv"),
        composition=WrittenComposition(f"{policy}:{LIMITS}", placement="none"),
    )
    jct = simulate(workload, setting).outcomes.jct
    place = {job.spec.id: number for number, job in enumerate(workload.jobs)}
    return jct[[place[id_] for id_ in wanted]]


def _apart(ours: Floats, theirs: Collection[float]) -> float:
    """The largest difference of the two distribution functions."""
    a, b = np.sort(ours), np.sort(list(theirs))
    at = np.concatenate([a, b])
    shares = [np.searchsorted(one, at, side="right") / len(one) for one in (a, b)]
    return float(np.abs(shares[0] - shares[1]).max())


def _same(ours: Floats, theirs: Collection[float]) -> float:
    """The share of jobs that take as long to the second."""
    return float((np.abs(ours - list(theirs)) < 1.0).mean())


if __name__ == "__main__":
    main()
