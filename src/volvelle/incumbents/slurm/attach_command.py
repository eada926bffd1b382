"""``volvelle attach slurm``: forecasts beside a running Slurm."""

from typing import Annotated, Any

import typer

from volvelle.cli import options
from volvelle.incumbents.attach import any_command as usual


@options.besides(options.of_fields(usual.Following))
def slurm(
    host: Annotated[str, typer.Option(metavar="HOST", help="A login node, asked over ssh.")] = "",
    publish: Annotated[
        bool,
        typer.Option(
            "--publish",
            help="Write told starts to the AdminComment of waiting jobs, every five minutes at most; removed"
            " at the end. Takes an operator's rights.",
        ),
    ] = False,
    **given: Any,
) -> None:
    """When each job of this Slurm cluster starts and ends, with the accuracy so far beside Slurm's own.

    An ordinary user's rights suffice. Every poll asks scontrol for jobs, nodes and reservations.
    """
    from volvelle.incumbents.slurm.ask import Slurm
    from volvelle.incumbents.slurm.attach import incumbent
    from volvelle.incumbents.slurm.publish import Publisher

    how = usual.Following(**given)
    asks = Slurm(host, how.seconds()[1])
    usual.follow(asks, incumbent(), how, Publisher(asks) if publish else None)
