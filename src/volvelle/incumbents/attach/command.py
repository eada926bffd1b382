"""``volvelle attach``: forecasts beside a running scheduler, or through a recording of one."""

from pathlib import Path
from typing import Annotated

import typer

from volvelle.cli import options
from volvelle.cli.options import Form
from volvelle.core.systems import brought, modules_of
from volvelle.incumbents.attach.any_command import User, show

PANEL = "Beside Slurm or Kueue"
app = typer.Typer(no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder that attach wrote.")]


@app.callback()
def attach() -> None:
    """Tell when jobs of the scheduler that a site has start: it is read, and only --publish writes to it.

    volvelle attach slurm

    volvelle attach kueue
    """


for _scheduler in sorted(modules_of("attaches")):
    app.command(_scheduler)(options.complete(brought("attaches", _scheduler)))


@app.command()
def replay(folder: Folder, user: User = "", output: options.Output = Form.TABLE) -> None:
    """Follow a recording to its end as if it were now: the last table and the accuracy.

    volvelle attach replay volvelle-attach
    """
    from volvelle.cli.output import progress
    from volvelle.incumbents.attach.session import replay as replayed
    from volvelle.model.problems import Problem

    last = None
    with progress("replaying", "polls") as update:
        for number, seen in enumerate(replayed(folder), 1):
            last = seen
            update(number, None)
    if last is None:
        raise Problem(f"the recording in {folder} has no poll")
    show(*last, user, output)


@app.command()
def why(folder: Folder, job: Annotated[str, typer.Argument(metavar="JOB")]) -> None:
    """The cause that keeps a job waiting at a recording's last poll: the limit, the jobs ahead, the hold.

    volvelle attach why volvelle-attach 1188_3
    """
    from volvelle.cli.moments import format_moment, local
    from volvelle.incumbents.attach.session import at_the_end
    from volvelle.model.problems import Problem, nearest

    follower = at_the_end(folder)
    known = follower.snapshot.jobs
    found = next((one for one in known if one.key == job), None)
    if found is None:
        keys = [one.key for one in known if one.pending]
        raise Problem(f"no job {job!r} at the last poll{nearest(job, keys)}", usage=True)
    if not found.pending:
        print(f"job {job} is {found.state.lower()}")
        return
    told = next(one for one in follower.tell() if one.key == job)
    print(f"{follower.incumbent.title} says: {found.said or 'nothing'}")
    if job in follower.why:
        print(f"The rules say: {follower.why[job]}")
    now = local(follower.snapshot.time)
    print(
        f"Starts about {format_moment(told.start, now)}, by {format_moment(told.start_p90, now)} in nine"
        f" cases of ten"
    )


@app.command("what-if")
def what_if(
    folder: Folder,
    changes: Annotated[
        list[str],
        typer.Argument(metavar="CHANGE...", help="As the scheduler's own tools write them."),
    ],
    output: options.Output = Form.TABLE,
) -> None:
    """Effects of changes of the site on the jobs that wait at a recording's last poll.

    volvelle attach what-if volvelle-attach "QOS=normal MaxTRESPU=gres/gpu=16"

    volvelle attach what-if volvelle-attach "NodeName=h5 Like=h4" "PartitionName=h100 Nodes=h[1-5]"
    """
    from volvelle.cli.rows import show_rows
    from volvelle.incumbents.attach.effects import Present, effects
    from volvelle.incumbents.attach.listing import EFFECTS, effect_heads
    from volvelle.incumbents.attach.session import at_the_end

    follower = at_the_end(folder)
    found = [one._asdict() for one in effects(Present.of(follower), changes)]
    show_rows(found, effect_heads(), EFFECTS, output, "No job waits.")


@app.command()
def summary(
    folder: Folder,
    last: Annotated[str, typer.Option(help="How far to look back.")] = "7d",
    webhook: Annotated[
        str, typer.Option(metavar="URL", help='Post it as {"text": ...} as well.')
    ] = "",
) -> None:
    """Waits, limits asked for against what was used, and accuracy, in words: a mail for the week.

    volvelle attach summary volvelle-attach --last 7d | mail -s "The week on the cluster" team
    """
    from volvelle.durations import parse_duration
    from volvelle.incumbents.attach.listing import summary as lines
    from volvelle.incumbents.attach.session import at_the_end
    from volvelle.model.problems import Problem

    try:
        seconds = parse_duration(last)
    except ValueError as error:
        raise Problem(f"--last: {error}", usage=True) from None
    follower = at_the_end(folder)
    said = "\n".join(lines(follower, follower.snapshot.time - seconds))
    print(said)
    if webhook:
        _post(webhook, said)


def _post(url: str, text: str) -> None:
    """Post a text to a webhook. Raises `Problem` where that fails."""
    import json

    from volvelle.live.messages import new_identity
    from volvelle.live.notifications.failures import DeliveryFailed
    from volvelle.live.notifications.webhook import Webhooks
    from volvelle.live.store import Notification
    from volvelle.model.problems import Problem

    body = json.dumps({"text": text})
    news = Notification(
        id=new_identity(), event="summary", account="", target=url, key="", body=body, created=0.0
    )
    try:
        Webhooks().post(news, "")
    except DeliveryFailed as failure:
        raise Problem(
            f"the summary was not posted to {url}: {failure}", mend="check --webhook"
        ) from None
