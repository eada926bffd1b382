"""``volvelle journal`` and ``volvelle snapshot``: the journal of a server, and its present state."""

from pathlib import Path
from typing import Annotated

import typer

from volvelle.cli import options


def journal(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for it.")] = Path(
        "volvelle-live"
    ),
    force: options.Force = False,
) -> None:
    """Write the journal of the server into a run directory, with a report (operators).

    volvelle journal --out today

    volvelle simulate --from-journal today --policy srsf
    """
    import msgspec

    from volvelle.cli.results import OF_RUN, free_folder
    from volvelle.core.events import JobSubmitted
    from volvelle.core.journal import read_journal
    from volvelle.live.http.client import ApiClient
    from volvelle.model.overheads import Overheads
    from volvelle.notebook.results import Run
    from volvelle.simulate import run_directory
    from volvelle.simulate.run import Setting
    from volvelle.simulate.run_directory import RunRecord, RunStatus

    free_folder(out, *OF_RUN, force=force)
    client = ApiClient.find()
    run_directory.prepare(out)
    run_directory.clear(out)
    with run_directory.written(out / run_directory.JOURNAL) as path, path.open("wb") as file:
        for chunk in client.stream("/v1/journal"):
            file.write(chunk)
    header, entries = read_journal(out / run_directory.JOURNAL)
    jobs = sum(isinstance(event, JobSubmitted) for entry in entries for event in entry.events)
    setting = Setting(
        cluster=header.cluster,
        composition=header.composition,
        overheads=Overheads.model_validate(header.overheads),
        seed=header.seed,
    )
    origin = {"trace": client.url, "format": "live", "jobs": jobs}
    record = RunRecord.of(f"{header.composition.policy}, live", origin, setting)
    record = msgspec.structs.replace(record, status=RunStatus.FINISHED)
    run_directory.write_record(out, record)
    page = Run(record, run_directory.read_outcomes(out, record)).report(out)
    print(f"{jobs:,} jobs. Report: {page}")
    print(f"Next: volvelle simulate --from-journal {out} --policy srsf")


def snapshot(
    out: Annotated[Path, typer.Option(metavar="FILE", help="File for it.")] = Path("snapshot.json"),
    force: options.Force = False,
) -> None:
    """Write the present state of a server, from which simulations continue (operators).

    volvelle snapshot --out now.json

    volvelle simulate --from-snapshot now.json --policy srsf
    """
    from volvelle.cli.results import free_file
    from volvelle.live.http.client import ApiClient
    from volvelle.simulate.run_directory import written

    free_file(out, force=force)
    client = ApiClient.find()
    with written(out) as path, path.open("wb") as file:
        for chunk in client.stream("/v1/snapshot"):
            file.write(chunk)
    print(f"Next: volvelle simulate --from-snapshot {out} --policy srsf")
