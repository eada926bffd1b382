"""``volvelle attach``: forecasts beside a running Slurm, or through a recording of one."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from volvelle.cli import options
from volvelle.cli.options import Form

if TYPE_CHECKING:
    from volvelle.incumbents.slurm.accuracy import Told
    from volvelle.incumbents.slurm.follow import Follower
    from volvelle.live.config import Listen

app = typer.Typer(no_args_is_help=True)

User = Annotated[str, typer.Option("--user", metavar="NAME", help="Show this user's jobs alone.")]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder that attach wrote.")]


@app.callback()
def attach() -> None:
    """Tell when jobs of the scheduler that a site has will start: it is read, and never written to.

    volvelle attach slurm
    """


@app.command()
def slurm(
    host: Annotated[
        str, typer.Option("--host", metavar="HOST", help="A login node, asked over ssh.")
    ] = "",
    every: Annotated[
        str, typer.Option("--every", help="From one poll to the next, at least.")
    ] = "60s",
    once: Annotated[bool, typer.Option("--once", help="Poll once, print, end.")] = False,
    record: Annotated[
        Path, typer.Option("--record", metavar="DIR", help="Keeps what was seen and told.")
    ] = Path("volvelle-attach"),
    timeout: Annotated[str, typer.Option("--timeout", help="For each question.")] = "30s",
    metrics: Annotated[
        Path | None,
        typer.Option("--metrics", metavar="FILE", help="Figures for Prometheus, after each poll."),
    ] = None,
    publish: Annotated[
        bool,
        typer.Option(
            "--publish",
            help="Write told starts to the AdminComment of waiting jobs, every five minutes at most; removed"
            " at the end. Takes an operator's rights.",
        ),
    ] = False,
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="[ADDRESS:]PORT",
            help="Show the cluster to volvelle queue, why, history and in a browser, as serve does.",
        ),
    ] = "",
    certificate: Annotated[
        Path | None, typer.Option("--certificate", metavar="FILE", help="Of --listen: for TLS.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="The key of the certificate.")
    ] = None,
    user: User = "",
    output: options.Output = Form.TABLE,
) -> None:
    """When each job of this Slurm cluster starts and ends, with the accuracy so far beside Slurm's own.

    An ordinary user's rights suffice. Every poll asks scontrol for jobs, nodes and reservations.
    """
    import signal
    from threading import Event

    from volvelle.durations import parse_duration
    from volvelle.incumbents.slurm.ask import Slurm
    from volvelle.incumbents.slurm.forecast import foresee
    from volvelle.incumbents.slurm.listing import prometheus
    from volvelle.incumbents.slurm.publish import Publisher
    from volvelle.incumbents.slurm.session import Session
    from volvelle.model.problems import Problem

    try:
        seconds, patience = parse_duration(every), parse_duration(timeout)
    except ValueError as error:
        raise Problem(f"--every or --timeout: {error}", usage=True) from None
    asks = Slurm(host, patience)
    publisher = Publisher(asks) if publish else None
    if listen:
        from volvelle.incumbents.slurm.attach_server import serve

        serve(asks, record, seconds, _listen(listen, certificate, key), print, publisher)
        return

    session = Session(asks, record, foresee, publisher=publisher)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that comments are removed
    try:
        for told in session.steps(seconds, Event()):
            if isinstance(told, Problem):
                print(f"warning: {told}", file=sys.stderr)
            elif session.follower is not None:
                _show(session.follower, told, user, output)
                if metrics is not None:
                    _replace(metrics, prometheus(session.follower))
            if once:
                return
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    finally:
        session.close()


def _listen(written: str, certificate: Path | None, key: Path | None) -> "Listen":
    from pydantic import ValidationError

    from volvelle.live.config import Listen
    from volvelle.model.problems import Problem
    from volvelle.model.validation import describe_validation

    address, _, port = written.rpartition(":")
    values = {"address": address or "127.0.0.1", "port": port, "certificate": certificate}
    try:
        return Listen(**values, key=key)
    except ValidationError as error:
        said = describe_validation(error, Listen).partition(": give certificate")[0]
        raise Problem(
            f"--listen {written}: {said}",
            mend="write --listen 8421, or an address with --certificate and --key",
            usage=True,
        ) from None


@app.command()
def replay(folder: Folder, user: User = "", output: options.Output = Form.TABLE) -> None:
    """Follow a recording to its end as if it were now: the last table and the accuracy.

    volvelle attach replay volvelle-attach
    """
    from volvelle.cli.output import progress
    from volvelle.incumbents.slurm.forecast import foresee
    from volvelle.incumbents.slurm.session import replay as replayed
    from volvelle.model.problems import Problem

    last = None
    with progress("replaying", "polls") as update:
        for number, seen in enumerate(replayed(folder, foresee), 1):
            last = seen
            update(number, None)
    if last is None:
        raise Problem(f"the recording in {folder} has no poll")
    _show(*last, user, output)


@app.command()
def why(folder: Folder, job: Annotated[str, typer.Argument(metavar="JOB")]) -> None:
    """The cause that keeps a job waiting at a recording's last poll: the limit, the jobs ahead, the hold.

    volvelle attach why volvelle-attach 1188_3
    """
    from volvelle.cli.moments import format_moment, local_now
    from volvelle.incumbents.slurm.forecast import foresee
    from volvelle.incumbents.slurm.recording import read
    from volvelle.incumbents.slurm.session import resumed
    from volvelle.model.problems import Problem, nearest

    follower = resumed(read(folder), foresee).follower
    known = follower.snapshot.jobs if follower is not None else ()
    found = next((one for one in known if one.key == job), None)
    if follower is None or found is None:
        keys = [one.key for one in known if one.pending]
        raise Problem(f"no job {job!r} at the last poll{nearest(job, keys)}", usage=True)
    if not found.pending:
        print(f"job {job} is {found.state.lower()}")
        return
    told = next(one for one in follower.tell() if one.key == job)
    print(f"Slurm says: {found.reason or 'nothing'}")
    if job in follower.why:
        print(f"The rules say: {follower.why[job]}")
    now = local_now()
    print(
        f"Starts about {format_moment(told.start, now)}, by {format_moment(told.start_p90, now)} in nine"
        f" cases of ten"
    )


@app.command("what-if")
def what_if(
    folder: Folder,
    changes: Annotated[
        list[str], typer.Argument(metavar="CHANGE...", help="As for sacctmgr and scontrol.")
    ],
    output: options.Output = Form.TABLE,
) -> None:
    """Effects of changes of the site on the jobs that wait at a recording's last poll.

    volvelle attach what-if volvelle-attach "QOS=normal MaxTRESPU=gres/gpu=16"

    volvelle attach what-if volvelle-attach "NodeName=h5 Like=h4" "PartitionName=h100 Nodes=h[1-5]"
    """
    from volvelle.cli.rows import show_rows
    from volvelle.incumbents.slurm.forecast import foresee
    from volvelle.incumbents.slurm.listing import EFFECTS, effect_heads
    from volvelle.incumbents.slurm.recording import read
    from volvelle.incumbents.slurm.session import resumed
    from volvelle.incumbents.slurm.what_if import effects
    from volvelle.model.problems import Problem

    follower = resumed(read(folder), foresee).follower
    if follower is None:
        raise Problem(f"the recording in {folder} has no poll")
    found = [one._asdict() for one in effects(follower, changes)]
    show_rows(found, effect_heads(), EFFECTS, output, "No job waits.")


@app.command()
def summary(
    folder: Folder,
    last: Annotated[str, typer.Option("--last", help="How far to look back.")] = "7d",
    webhook: Annotated[
        str, typer.Option("--webhook", metavar="URL", help='Post it as {"text": ...} as well.')
    ] = "",
) -> None:
    """Waits, limits asked for against what was used, and accuracy, in words: a mail for the week.

    volvelle attach summary volvelle-attach --last 7d | mail -s "The week on the cluster" team
    """
    from volvelle.durations import parse_duration
    from volvelle.incumbents.slurm.forecast import foresee
    from volvelle.incumbents.slurm.listing import summary as lines
    from volvelle.incumbents.slurm.recording import read
    from volvelle.incumbents.slurm.session import resumed
    from volvelle.model.problems import Problem

    try:
        seconds = parse_duration(last)
    except ValueError as error:
        raise Problem(f"--last: {error}", usage=True) from None
    follower = resumed(read(folder), foresee).follower
    if follower is None:
        raise Problem(f"the recording in {folder} has no poll")
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


def _show(follower: "Follower", told: "list[Told]", user: str, output: Form) -> None:
    """The heading, the table, the accuracy, and what could not be read."""
    from volvelle.cli.moments import local_now
    from volvelle.cli.rows import show_rows
    from volvelle.incumbents.slurm.listing import KEYS, heading, heads, rows

    if output is Form.TABLE:
        print(heading(follower))
        print(follower.accuracy.line() + "\n")
    shown = rows(follower, told, user)
    show_rows(shown, heads(local_now()), KEYS, output, "No job waits or runs.")
    for remark in (*follower.site.remarks, *follower.remarks):
        print(f"warning: {remark}", file=sys.stderr)
    sys.stdout.flush()


def _replace(path: Path, text: str) -> None:
    """Write a file that readers never see half."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
