"""``volvelle site import slurm``: what a site's Slurm says of itself, as one file."""

from pathlib import Path
from typing import Annotated

import typer

from volvelle.cli import options


def slurm(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="What scontrol, sacctmgr and sacct said, in files."),
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Ask the Slurm of this machine instead.")
    ] = False,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Ask a login node over ssh instead.")
    ] = "",
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file.")] = Path(
        "site.toml"
    ),
    force: options.Force = False,
) -> None:
    """Write nodes, partitions, QOS, limits, accounts and priorities of a Slurm site to one file.

    Options that the policy does not model are named, with how many jobs of the site they touch.

    volvelle site import slurm --local

    volvelle compare october.txt --cluster site.toml --policy slurm:site=site.toml --policy easy
    """
    from volvelle.cli.output import remark
    from volvelle.cli.results import free_file, write_text
    from volvelle.incumbents.slurm.ask import Slurm
    from volvelle.incumbents.slurm.read_jobs import read_jobs
    from volvelle.incumbents.slurm.read_site import read_site, texts_of
    from volvelle.incumbents.slurm.site_file import read_site_file, written_site
    from volvelle.incumbents.slurm.unmodelled import jobs_of_sacct, unmodelled
    from volvelle.model.problems import Problem

    asked = local or bool(host)
    if asked == (folder is not None):
        raise Problem(
            "nothing says which site"
            if folder is None
            else "a folder and a running Slurm are named",
            mend="name a folder of answers, or say --local, or --host login01",
            usage=True,
        )
    free_file(out, force=force)
    if folder is not None:
        texts = texts_of(folder)
    else:
        commands = Slurm(host)
        texts = commands.site() | commands.poll()
    site = read_site(texts)
    known = jobs_of_sacct(texts["sacct"]) if "sacct" in texts else read_jobs(texts.get("job", ""))
    jobs = list(known)
    said = list(site.remarks)
    for one in unmodelled(site, jobs):
        touched = f" (touches {one.jobs:,} of {len(jobs):,} jobs)" if one.jobs else ""
        said.append(f"{one.what}{touched}.")
    if not jobs:
        said.append(
            "No jobs were read (sacct -P, or scontrol show job): it is not known how many are touched."
        )
    write_text(out, written_site(site, tuple(said)))
    read_site_file(out)
    gpus = sum(sum(node.gpus.values()) for node in site.nodes)
    print(
        f"{out}: {site.cluster}, {len(site.nodes)} nodes, {gpus} GPUs, {len(site.partitions)} partitions,"
        f" {len(site.qos)} QOS, {len(site.associations)} accounts and users"
    )
    for sentence in said:
        remark(f"note: {sentence}")
    print(
        f"Next: {_SACCT} > month.txt\n      volvelle compare month.txt --cluster {out} "
        f"--policy slurm:site={out} --policy easy"
    )


_SACCT = (
    "sacct -a -D -P -S now-30days -o JobIDRaw,JobID,JobName,User,Account,Partition,QOS,State,Submit,Eligible,"
    "Start,End,ElapsedRaw,TimelimitRaw,NNodes,ReqTRES,AllocTRES,Constraints,Reservation"
)
"""The columns of a month's jobs that a comparison looks at."""
