"""Blox, figure 3: Pollux by the interval between its decisions.

    python experiments/blox/pollux_interval.py TRACE...

Blox compares itself with the Pollux authors' own code, whose means over their eight workloads are recorded.
Here what an interval costs, over one of 60 s, is compared: the traces need not be all eight. 16 nodes of 4
GPUs, 30 s for every change of GPUs, the jobs as that code reads them.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

from study import Case, Claim, Report, lines, mean, options, run, setting

from volvelle.model.cluster import parse_cluster
from volvelle.model.overheads import Overheads
from volvelle.model.units import HOUR
from volvelle.workload.reading import read_trace
from volvelle.workload.workload import Workload

AUTHORS = {30: 2729.1, 60: 2751.1, 120: 2805.9, 240: 2968.5, 480: 3354.2}
"""Mean JCT in seconds by interval in seconds, over the authors' eight workloads (their artifact)."""
BASE = 60
BLOX = 2.4
"""Percent: the most that Blox differs by (section 4.1)."""


def main() -> None:
    given = options(__doc__, jobs=160, seeds=1, traces="Pollux' workload files")
    report = Report(
        "pollux_interval",
        "Pollux by its interval (Blox, section 4.1, figure 3)",
        replace(given, jobs=given.jobs - 1, before=0.0, coming=1.0),
    )
    cases = [
        Case(
            (str(interval), trace.stem, str(seed)),
            partial(_workload, trace, given.jobs),
            replace(
                setting(
                    given,
                    f"pollux:round={interval},seed={seed}",
                    placement="most-free",
                    cluster=parse_cluster("16x4"),
                    overheads=Overheads(start=30.0, restore=30.0),
                ),
                tracked=None,
            ),
        )
        for interval in AUTHORS
        for trace in given.traces
        for seed in given.seeds
    ]
    found = {key: float(outcomes.jct.mean()) for key, outcomes in run(cases, given.workers).items()}
    jct = {
        interval: mean([one for key, one in found.items() if key[0] == str(interval)])
        for interval in AUTHORS
    }
    each = {
        trace.stem: {
            interval: mean([found[str(interval), trace.stem, str(seed)] for seed in given.seeds])
            for interval in AUTHORS
        }
        for trace in given.traces
    }
    ratio = {interval: one / jct[BASE] for interval, one in jct.items()}
    authors = {interval: one / AUTHORS[BASE] for interval, one in AUTHORS.items()}
    apart = max(100 * abs(ratio[i] / authors[i] - 1) for i in AUTHORS)
    traces = ", ".join(trace.stem for trace in given.traces)
    report.say(f"Mean JCT on {traces}, and over that at {BASE} s:")
    report.table(
        ("interval", *(f"{interval} s" for interval in AUTHORS)),
        [
            ("here", *(f"{one:.0f} s" for one in jct.values())),
            ("here, over 60 s", *(f"{one:.3f}" for one in ratio.values())),
            *(
                (f"{name}, over {BASE} s", *(f"{one / by[BASE]:.3f}" for one in by.values()))
                for name, by in each.items()
            ),
            ("the authors' code, eight workloads", *(f"{one:.3f}" for one in authors.values())),
        ],
    )
    report.claims(
        [
            Claim(
                f"JCT by interval is that of the authors' code to {BLOX:g} %",
                f"by what an interval costs over one of {BASE} s, to {apart:.1f} %",
                apart <= BLOX,
            ),
            Claim(
                "JCT grows with the interval",
                ", ".join(f"{one:.0f} s" for one in jct.values()),
                list(jct.values()) == sorted(jct.values()),
            ),
        ]
    )
    report.picture(
        lines(
            "Pollux by interval",
            [interval / 60 for interval in AUTHORS],
            {"Mean JCT": {"here": [one / HOUR for one in jct.values()]}},
            "Minutes between decisions",
        )
    )
    report.runs(
        ("interval_seconds", "trace", "seed", "mean_jct_seconds"),
        [(*key, repr(one)) for key, one in found.items()],
    )
    report.close()


def _workload(trace: Path, jobs: int) -> Workload:
    options = {"elastic": True, "simulator": True}
    return Workload(read_trace(trace, "pollux", options=options).jobs[:jobs])


if __name__ == "__main__":
    main()
