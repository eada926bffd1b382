"""Notifications: events, and targets, which are web addresses (webhooks) or mail addresses."""

import re
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field

from volvelle.live.strict_model import StrictModel

MAX_NOTIFY = 5
_MAIL = re.compile(r"[A-Za-z0-9._%+-]+@(?P<domain>[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*)")
_PORTS = {"http": 80, "https": 443}


class NotifiedEvent(StrEnum):
    """Events that can be notified."""

    FINISHED = "finished"
    FAILED = "failed"  # also: rejected; not: cancelled, which is a user's wish
    PREEMPTED = "preempted"
    DEADLINE_AT_RISK = "deadline-at-risk"
    NODE_LOST = "node-lost"


def mail_domain(target: str) -> str | None:
    """The domain of a mail address, in lower case; None if ``target`` is none."""
    match = _MAIL.fullmatch(target)
    return None if match is None else match["domain"].lower()


def web_origin(target: str) -> str | None:
    """Scheme, host and port of a web address, as in https://hooks.example.org:443; None if it is none.

    An address with a user or a password in it is none.
    """
    try:
        parts = urlsplit(target)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return None
    plain = target.isascii() and target.isprintable() and " " not in target and "\\" not in target
    if not plain or not parts.hostname or not port or "@" in parts.netloc:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}"


def place_of(target: str) -> str:
    """Domain or origin of a target, without what may be secret in its address."""
    return mail_domain(target) or web_origin(target) or ""


def _check_target(target: object) -> object:
    if isinstance(target, str) and not place_of(target):
        raise ValueError("give a web address (https://...) or a mail address (ada@example.org)")
    return target


_Simple = Annotated[str, Field(pattern=r"^(https://|[a-z]{1,20}@)[a-z]{1,20}\.[a-z]{2,6}$")]
Target = Annotated[
    Annotated[str, Field(max_length=2000)],
    BeforeValidator(_check_target, json_schema_input_type=_Simple),
]
"""A web or mail address. The pattern documents the simplest of those that are taken."""


class Notify(StrictModel):
    """A target of the events of a job."""

    to: Target = Field(
        description="web address of a webhook, or mail address; where the operator allows it"
    )
    events: tuple[NotifiedEvent, ...] = Field(
        tuple(NotifiedEvent), min_length=1, description="of which; default: all"
    )
    key: Annotated[str, Field(max_length=200)] = Field(
        "", description="a webhook is signed with it; empty: it is not signed"
    )


NotifyList = Annotated[
    tuple[
        Annotated[
            Notify,
            BeforeValidator(
                lambda given: {"to": given} if isinstance(given, str) else given,
                json_schema_input_type=Notify | _Simple,
            ),
        ],
        ...,
    ],
    Field(max_length=MAX_NOTIFY),
]
"""Targets: texts, or what `Notify` says."""
