"""The summary for an owner as a mail (RFC 5322), in text and HTML: a draft, or what ``sendmail`` is given."""

from collections.abc import Sequence
from email.message import EmailMessage
from html import escape
from pathlib import Path

MAIL = "summary.eml"
_STYLE = "font:15px/1.5 system-ui,sans-serif;max-width:46em"


def write_mail(directory: Path, title: str, sentences: Sequence[str]) -> Path:
    """Write `MAIL` into ``directory``; its path. It names no sender and no receiver."""
    mail = EmailMessage()
    mail["Subject"] = " ".join(title.split())
    mail["X-Unsent"] = "1"  # programs of mail open it as a draft
    end = "The tables and pictures are in report.html, beside this file."
    mail.set_content("\n".join([*(f"- {one}" for one in sentences), "", end, ""]))
    items = "".join(f"<li>{escape(one)}</li>" for one in sentences)
    mail.add_alternative(
        f'<div style="{_STYLE}"><h2>{escape(title)}</h2><ul>{items}</ul><p>{end}</p></div>',
        subtype="html",
    )
    mail.set_boundary("volvelle-summary")  # the same run writes the same file
    path = directory / MAIL
    path.write_bytes(mail.as_bytes())
    return path
