"""``volvelle site import kueue``: the objects by which a site's Kueue decides, as one file."""

from pathlib import Path
from typing import Annotated

import typer

from volvelle.cli import options


def kueue(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The site's objects as YAML or JSON, or one file.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file.")] = Path(
        "site.toml"
    ),
    force: options.Force = False,
) -> None:
    """Write queues, cohorts, flavours, classes and nodes of a site with Kueue to one file.

    What the policy does not model is named, with how many objects it touches.

    volvelle site import kueue objects

    volvelle compare trace.csv --cluster site.toml --policy kueue:site=site.toml --policy easy
    """
    from volvelle.cli.output import remark
    from volvelle.cli.results import free_file, write_text
    from volvelle.incumbents.kueue.read_site import dangling, documents_at, site_of
    from volvelle.incumbents.kueue.site_file import cluster_nodes, site_at, written_site
    from volvelle.incumbents.kueue.unmodelled import unmodelled
    from volvelle.model.cluster import Cluster

    free_file(out, force=force)
    documents = documents_at(folder)
    site = site_of(documents)
    nodes, notes = cluster_nodes(site)
    notes = [*notes, *dangling(site), *unmodelled(documents)]
    write_text(out, written_site(documents, site, nodes, notes))
    site_at(out)
    print(
        f"{out}: {len(site.queues)} ClusterQueues, {len(site.cohorts)} Cohorts, {len(site.flavors)}"
        f" flavours, {len(nodes)} nodes, {Cluster.of(str(out)).gpus} GPUs"
    )
    for sentence in notes:
        remark(f"note: {sentence}.")
    print(
        f"Next: volvelle compare trace.csv --cluster {out} --policy kueue:site={out} --policy easy"
    )
