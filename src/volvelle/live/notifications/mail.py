"""Sends notifications to one address, as one mail."""

import json
import smtplib
import ssl
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any

from volvelle.live.notifications.failures import DeliveryFailed
from volvelle.live.notifications.settings import MailServer, Tls
from volvelle.live.store import Notification

_TIMEOUT_SECONDS = 10.0
_PERMANENT = 500
"""SMTP codes from here on: it would be refused again."""

_LONGEST = 300
"""Characters shown of one notification."""


def send(notifications: Sequence[Notification], server: MailServer, password: str) -> None:
    """Hand one mail with all ``notifications``, which have one target, to ``server``.

    Raises `DeliveryFailed`, without the server's answer: it may name an address, and all users may read
    the error.
    """
    message = compose(notifications, server.sender)
    try:
        with closing(_connect(server)) as connection:
            if server.user:
                connection.login(server.user, password)
            connection.send_message(message)
            with suppress(OSError, smtplib.SMTPException):
                connection.quit()  # it has the mail, whatever it says to this
    except smtplib.SMTPRecipientsRefused as error:
        code = next(iter(error.recipients.values()))[0]
        raise DeliveryFailed(f"SMTP code {code}", permanent=code >= _PERMANENT) from None
    except smtplib.SMTPResponseException as error:
        raise DeliveryFailed(f"SMTP code {error.smtp_code}") from None
    except smtplib.SMTPException as error:
        raise DeliveryFailed(type(error).__name__) from None
    except OSError as error:
        raise DeliveryFailed(f"{type(error).__name__}: {error}") from None


def _connect(server: MailServer) -> smtplib.SMTP:
    context = ssl.create_default_context()
    if server.tls is Tls.IMPLICIT:
        return smtplib.SMTP_SSL(
            server.server, server.port, timeout=_TIMEOUT_SECONDS, context=context
        )
    connection = smtplib.SMTP(server.server, server.port, timeout=_TIMEOUT_SECONDS)
    if server.tls is Tls.STARTTLS:
        try:
            connection.starttls(context=context)
        except BaseException:
            connection.close()
            raise
    return connection


def compose(notifications: Sequence[Notification], sender: str) -> EmailMessage:
    """The mail about ``notifications``."""
    first = notifications[0]
    told = [_one_line(_sentence(json.loads(each.body))) for each in notifications]
    message = EmailMessage()
    message["From"] = sender
    message["To"] = first.target
    message["Subject"] = told[0] if len(told) == 1 else f"{len(told)} notifications of volvelle"
    message["Message-ID"] = f"<{first.id}@volvelle>"
    message["Auto-Submitted"] = "auto-generated"
    lines = [
        f"{_moment(each.created)}  {sentence}  [{each.id}]"
        for each, sentence in zip(notifications, told, strict=True)
    ]
    message.set_content("\n".join(lines) + "\n")
    return message


def _one_line(text: str) -> str:
    """``text`` as a header may hold it: the reasons of ends are what programs wrote."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


def _moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _sentence(body: dict[str, Any]) -> str:
    """A notification for people."""
    job, node = body["job"], body["node"]
    if job is None:
        jobs = ", ".join(map(str, body["jobs"]))
        return f"node {node} was lost" + (f", with jobs {jobs}" if jobs else "")
    name = f"job {job['number']}" + (f" ({job['name']})" if job["name"] else "")
    match body["event"]:
        case "preempted":
            return f"{name} was preempted, and goes on later"
        case "deadline-at-risk":
            due = _moment(job["due"])
            expected = job["predicted_p90"] or job["predicted_p50"]
            return f"{name} is to finish by {due}, and is expected by {_moment(expected)}"
        case "node-lost":
            return f"{name} has lost node {node}"
        case _:
            reason = f": {job['reason']}" if job["reason"] else ""
            return f"{name} {'is ' if job['state'] == 'rejected' else ''}{job['state']}{reason}"
