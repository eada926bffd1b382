"""One writer: the server that holds a Lease of the API, as controllers of Kubernetes elect their leaders."""

import contextlib
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from volvelle.kubernetes_api import ApiRefusal, KubernetesApi, Object
from volvelle.live.agent.files import write_file
from volvelle.live.messages import JournalPosition, new_identity
from volvelle.model.problems import Problem

DURATION_SECONDS = 15.0
_RENEW_SECONDS = 5.0
_POLL_SECONDS = 0.5
_PASSING = (409, 429, 500, 502, 503, 504)
"""Codes of answers that another try may not get: of an API server that starts, or has too much to do."""

_JOURNALS = "volvelle.dev/journals"
"""Annotation: how far servers had written their journals. Pods come and go; this stays."""


class WriterLease:
    """The Lease ``name`` in the namespace of ``api``, held by the server whose identity is in ``file``.

    Held for `DURATION_SECONDS` after each renewal. Clocks of two machines are not compared: a holder that is
    seen not to renew for that long has lost it. position: how far the journal is written, which is noted in
    the lease. ``known``: what was noted there before.
    """

    def __init__(
        self,
        api: KubernetesApi,
        name: str,
        file: Path,
        position: Callable[[], JournalPosition | None] = lambda: None,
    ) -> None:
        self._api, self._name, self._position = api, name, position
        self.known: tuple[JournalPosition, ...] = ()
        self._path = f"apis/coordination.k8s.io/v1/namespaces/{api.namespace}/leases"
        if not file.exists():  # the same server, started again, goes on at once
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(file, new_identity().encode())
        self._holder = file.read_text()
        self._seen: tuple[str, float] = ("", 0.0)
        """The state of another's lease, and since when it has been so."""
        self._renewed = -math.inf

    @property
    def held(self) -> bool:
        """Whether this server may write."""
        return time.monotonic() - self._renewed < DURATION_SECONDS - _RENEW_SECONDS

    def acquire(self) -> None:
        """Wait until the lease is ours.

        Raises `Problem` where another server renews it, and errors of the API; one that may pass at the end
        of the wait alone.
        """
        end = time.monotonic() + DURATION_SECONDS + 2 * _POLL_SECONDS
        while True:
            failed: Exception | None = None
            try:
                if self.renew():
                    return
            except (ApiRefusal, OSError) as error:
                if isinstance(error, ApiRefusal) and error.code not in _PASSING:
                    raise
                failed = error
            if time.monotonic() > end:
                raise failed or Problem(
                    f"another server runs jobs in the namespace {self._api.namespace!r}: it holds the Lease "
                    f"{self._name!r}",
                    mend="end it, or name another namespace with the context of the kubeconfig",
                )
            time.sleep(_POLL_SECONDS)

    def renew(self) -> bool:
        """Renew the lease if that is due. Returns whether it is held. Raises errors of the API."""
        now = time.monotonic()
        if now - self._renewed < _RENEW_SECONDS:
            return True
        try:
            lease = self._api.get(f"{self._path}/{self._name}")
        except ApiRefusal as error:
            if error.code != 404:
                raise
            return self._write({}, now)
        noted = lease["metadata"].get("annotations", {}).get(_JOURNALS, "[]")
        with contextlib.suppress(msgspec.MsgspecError):
            self.known = msgspec.json.decode(noted, type=tuple[JournalPosition, ...])
        spec = lease.get("spec", {})
        if spec.get("holderIdentity") not in ("", None, self._holder):
            self._renewed = -math.inf
            state = f"{spec['holderIdentity']} {spec.get('renewTime')}"
            if state != self._seen[0]:
                self._seen = state, now
            if now - self._seen[1] < DURATION_SECONDS:
                return False
        return self._write(lease, now)

    def _write(self, before: Object, now: float) -> bool:
        """Write the lease as ours, unless somebody was quicker. Returns whether it is held."""
        spec = {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": int(DURATION_SECONDS),
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        metadata: Object = {"name": self._name}
        position = self._position()
        if position is not None and position.next_number > 1:  # without a job none can be lost
            noted = msgspec.json.encode(position.added_to(self.known)).decode()
            metadata["annotations"] = {_JOURNALS: noted}
        try:
            if before:
                metadata["resourceVersion"] = before["metadata"]["resourceVersion"]
                path = f"{self._path}/{self._name}"
                self._api.patch(path, {"metadata": metadata, "spec": spec})
            else:
                self._api.create(self._path, {"metadata": metadata, "spec": spec})
        except ApiRefusal as error:
            if error.code != 409:
                raise
            return self.held
        self._renewed = now
        return True
