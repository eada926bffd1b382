"""Sends one notification to a webhook, signed as GitHub signs its own."""

import hashlib
import hmac
from functools import cached_property
from typing import TYPE_CHECKING

from volvelle import __version__
from volvelle.live.notifications.failures import DeliveryFailed
from volvelle.live.store import Notification

if TYPE_CHECKING:
    import httpx

_TIMEOUT_SECONDS = 10.0
_GONE = 410
_OK = range(200, 300)


def signature(key: str, body: bytes) -> str:
    """The value of header X-Hub-Signature-256 for ``body``: HMAC with SHA-256, in hexadecimal digits."""
    return f"sha256={hmac.new(key.encode(), body, hashlib.sha256).hexdigest()}"


class Webhooks:
    """Posts notifications, from any thread.

    No redirect is followed, and neither proxies nor passwords are taken from the server's environment: a
    user's request goes where the operator allowed and nowhere else.
    """

    @cached_property
    def _client(self) -> "httpx.Client":
        import httpx  # noqa: PLC0415 - slow, and rarely needed

        return httpx.Client(timeout=_TIMEOUT_SECONDS, trust_env=False, follow_redirects=False)

    def post(self, notification: Notification, key: str) -> None:
        """Post it; ``key``: signs it, if not empty. Raises `DeliveryFailed`."""
        import httpx  # noqa: PLC0415 - as above

        body = notification.body.encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"volvelle/{__version__}",
            "X-Volvelle-Event": notification.event,
            "X-Volvelle-Delivery": notification.id,
        }
        if key:
            headers["X-Hub-Signature-256"] = signature(key, body)
        try:
            with self._client.stream(
                "POST", notification.target, content=body, headers=headers
            ) as response:
                status = response.status_code
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise DeliveryFailed(f"{type(error).__name__}: {error}") from None
        if status not in _OK:
            raise DeliveryFailed(f"HTTP status {status}", permanent=status == _GONE)
