"""The options of ``volvelle attach`` that every scheduler's command has, and what it does with them."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from volvelle.cli.options import Form, Output

if TYPE_CHECKING:
    from volvelle.incumbents.attach.accuracy import Told
    from volvelle.incumbents.attach.follow import Attached
    from volvelle.incumbents.attach.incumbent import Incumbent
    from volvelle.incumbents.attach.session import Asked, Publishes
    from volvelle.live.config import Listen

User = Annotated[str, typer.Option("--user", metavar="NAME", help="Show this user's jobs alone.")]
RECORD = Path("volvelle-attach")


class Following(NamedTuple):
    """The options of a command that follows a cluster."""

    every: Annotated[str, typer.Option(help="From one poll to the next, at least.")] = "60s"
    once: Annotated[bool, typer.Option("--once", help="Poll once, print, end.")] = False
    record: Annotated[Path, typer.Option(metavar="DIR", help="Keeps what was seen and told.")] = (
        RECORD
    )
    timeout: Annotated[str, typer.Option(help="For each question.")] = "30s"
    metrics: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Figures for Prometheus, after each poll."),
    ] = None
    listen: Annotated[
        str,
        typer.Option(
            metavar="[ADDRESS:]PORT",
            help="Show the cluster to volvelle queue, why, history and in a browser, as serve does.",
        ),
    ] = ""
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of --listen: for TLS.")
    ] = None
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The key of the certificate.")
    ] = None
    user: User = ""
    output: Output = Form.TABLE

    def seconds(self) -> tuple[float, float]:
        """From one poll to the next, and for each question. Raises `Problem`."""
        from volvelle.durations import parse_duration
        from volvelle.model.problems import Problem

        try:
            return parse_duration(self.every), parse_duration(self.timeout)
        except ValueError as error:
            raise Problem(f"--every or --timeout: {error}", usage=True) from None


def follow(
    asked: "Asked",
    of: "Incumbent[Any, Any]",
    how: Following,
    publisher: "Publishes | None" = None,
) -> None:
    """Poll, show and keep until Ctrl-C; with ``listen`` as a server. Raises `Problem`."""
    import signal
    from threading import Event

    from volvelle.incumbents.attach.listing import prometheus
    from volvelle.incumbents.attach.session import Session
    from volvelle.model.problems import Problem

    every, _ = how.seconds()
    if how.listen:
        from volvelle.incumbents.attach.server import serve

        at = _listen(how.listen, how.certificate, how.key)
        serve(asked, of, how.record, every, at, print, publisher)
        return

    session = Session(asked, how.record, of, publisher=publisher)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that comments are removed
    try:
        for told in session.steps(every, Event()):
            if isinstance(told, Problem):
                print(f"warning: {told}", file=sys.stderr)
            elif session.follower is not None:
                show(session.follower, told, how.user, how.output)
                if how.metrics is not None:
                    _replace(how.metrics, prometheus(session.follower))
            if how.once:
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


def show(follower: "Attached", told: "list[Told]", user: str, output: Form) -> None:
    """The heading, the table as of the last poll, the accuracy, and what could not be read."""
    from volvelle.cli.moments import local
    from volvelle.cli.rows import show_rows
    from volvelle.incumbents.attach.listing import heading, heads, keys, rows

    if output is Form.TABLE:
        print(heading(follower))
        print(follower.accuracy.line() + "\n")
    shown = rows(follower, told, user)
    of, now = follower.incumbent, local(follower.snapshot.time)
    show_rows(shown, heads(of, now), keys(of), output, "No job waits or runs.")
    for remark in (*follower.site.remarks, *follower.remarks):
        print(f"warning: {remark}", file=sys.stderr)
    sys.stdout.flush()


def _replace(path: Path, text: str) -> None:
    """Write a file that readers never see half."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
