"""``volvelle train-arrivals``: a model of arrivals for the policy ``anticipatory``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from volvelle.cli import options
from volvelle.cli.trace import TraceFile

PANEL = "Tune"


@options.reading
def train_arrivals(
    trace: TraceFile,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The model's file.")] = Path(
        "arrivals.json"
    ),
    force: options.Force = False,
    quanta: Annotated[
        str, typer.Option(help="Stretches of time that are predicted.")
    ] = "5m/1h/12h",
    run_times: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what estimator bins begins with as well."),
    ] = None,
    **reading: Any,
) -> None:
    """Learn from a trace or a server's journal when jobs come to its pools.

    volvelle train-arrivals volvelle-serve/journal.jsonl --out arrivals.json --run-times run-times.json
    """
    import numpy as np

    from volvelle.cli.output import remark
    from volvelle.cli.reading import read_file
    from volvelle.cli.results import free_file
    from volvelle.model.problems import Problem
    from volvelle.systems.anticipatory.arrivals import ArrivalModel, before, record
    from volvelle.systems.anticipatory.bins import RunTimes
    from volvelle.systems.anticipatory.quanta import read_quanta

    try:
        lengths = read_quanta(quanta)
    except ValueError as error:
        raise Problem(f"--quanta: {error}", usage=True) from None
    for path in (out, run_times):
        if path is not None:
            free_file(path, force=force)
    workload = read_file(trace, reading).workload
    jobs = workload.jobs
    names = sorted({job.spec.pool for job in jobs if job.spec.pool})
    if not names:
        raise Problem(f"{trace}: no job has a pool", mend="map a column: --map pool=COLUMN")
    index = {name: at for at, name in enumerate(names)}
    columns = (
        np.array([job.spec.submit_time for job in jobs]),
        np.array([job.spec.gpus for job in jobs]),
        np.nan_to_num(workload.durations, posinf=0.0),
        np.array([index.get(job.spec.pool, -1) for job in jobs]),
    )
    model = ArrivalModel.train(record(*columns, lengths), lengths)
    earlier = before(*columns, names, float(columns[0].max()), lengths)
    model._replace(earlier=earlier).save(out)
    if run_times is not None:
        seen = RunTimes(lengths)
        for job, seconds in zip(jobs, workload.durations.tolist(), strict=True):
            if np.isfinite(seconds):
                seen.add(job.spec, seconds)
        seen.save(run_times)
    remark(f"trained on {len(jobs):,} jobs of {len(names)} pools; written to {out}")
