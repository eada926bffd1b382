"""The table ``[notifications]`` of a server's file."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from volvelle.live.notify import NotifiedEvent, Target, mail_domain, web_origin
from volvelle.live.plain_connections import stays_on_machine
from volvelle.live.serve_folder import read_secret
from volvelle.live.strict_model import StrictModel
from volvelle.model.problems import Problem

_SLASHES = 2
"""In an origin: https://host."""


class Tls(StrEnum):
    """How mail is kept secret on its way to the mail server."""

    STARTTLS = "starttls"
    IMPLICIT = "implicit"
    NONE = "none"


class MailServer(StrictModel):
    """The server that mail is handed to."""

    server: str = Field(description="its name or address")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(
        587, description="465 where TLS is implicit"
    )
    sender: str = Field(description="mail address that mail comes from")
    tls: Tls = Field(Tls.STARTTLS, description="starttls, implicit or none")
    user: str = Field("", description="empty: without a log-in")
    password_file: Path | None = Field(None, description="file with the password of user")

    @model_validator(mode="after")
    def _check(self) -> "MailServer":
        if mail_domain(self.sender) is None:
            raise ValueError("mail: sender is no mail address")
        if bool(self.user) != (self.password_file is not None):
            raise ValueError("mail: user and password_file belong together: give both or none")
        if self.user and self.tls is Tls.NONE and not stays_on_machine(self.server):
            raise ValueError(
                'mail: without TLS whoever is on the way could read the password: say tls = "starttls"'
            )
        return self


class Subscription(StrictModel):
    """Targets of the events of all jobs and nodes."""

    target: Target = Field(description="web address of a webhook, or mail address")
    events: tuple[NotifiedEvent, ...] = Field(
        tuple(NotifiedEvent), min_length=1, description="of which; default: all"
    )
    key_file: Path | None = Field(
        None, description="file with the key that signs webhooks; without one they are not signed"
    )


class NotificationSettings(StrictModel):
    """Targets of events, and targets that users may name."""

    to: tuple[Subscription, ...] = Field((), description="operators' webhooks and mail addresses")
    webhook_origins: tuple[str, ...] = Field(
        (), description="users' webhooks may go there, as in https://hooks.example.org; empty: none"
    )
    mail_domains: tuple[str, ...] = Field(
        (), description="users' mail may go there, as in example.org; empty: none"
    )
    mail: MailServer | None = Field(
        None, description="the mail server; without it there is no mail"
    )
    waiting: Annotated[int, Field(ge=1)] = Field(
        10_000, description="operators' notifications that wait at most; later ones are dropped"
    )
    waiting_of_a_user: Annotated[int, Field(ge=1)] = Field(
        1000, description="a user's notifications that wait at most; later ones are dropped"
    )

    @field_validator("webhook_origins")
    @classmethod
    def _check_origins(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        origins = []
        for each in given:
            origin = web_origin(each)
            if origin is None or each.rstrip("/").count("/") != _SLASHES:
                raise ValueError(f"{each!r} is no origin: write https://host or https://host:port")
            origins.append(origin)
        return tuple(origins)

    @field_validator("mail_domains")
    @classmethod
    def _check_domains(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for each in given:
            if mail_domain(f"x@{each}") is None:
                raise ValueError(f"{each!r} is no domain: write example.org")
        return tuple(each.lower() for each in given)

    @model_validator(mode="after")
    def _check_mail(self) -> "NotificationSettings":
        to_mail = any(mail_domain(each.target) is not None for each in self.to)
        if self.mail is None and (self.mail_domains or to_mail):
            raise ValueError("notifications: mail needs a server: write [notifications.mail]")
        return self

    @property
    def any(self) -> bool:
        """Whether any notification may ever be sent."""
        return bool(self.to or self.webhook_origins or self.mail_domains)

    def allows(self, target: str) -> bool:
        """Whether a user may name ``target``."""
        domain = mail_domain(target)
        if domain is not None:
            return domain in self.mail_domains
        return web_origin(target) in self.webhook_origins

    def read_keys(self) -> dict[str, str]:
        """The key of each of the operators' webhooks that is signed. Raises `Problem`."""
        return {
            each.target: _secret_in(each.key_file) for each in self.to if each.key_file is not None
        }

    def read_password(self) -> str:
        """The password for the mail server; empty: there is none. Raises `Problem`."""
        if self.mail is None or self.mail.password_file is None:
            return ""
        return _secret_in(self.mail.password_file)


def _secret_in(path: Path) -> str:
    secret = read_secret(path)
    if not secret:
        raise Problem(
            f"[notifications]: there is nothing to read in {path}",
            mend="write the secret into it, readable by the server",
        )
    return secret
