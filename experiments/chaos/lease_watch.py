"""The Lease of the one server that writes, as the fake API server has it: its holders, their changes."""

import threading
import time
from typing import Any

_COUNTED_ON_SECONDS = 10.0
"""For so long after a renewal its holder writes."""


class LeaseWatch(threading.Thread):
    """Follows the Lease of ``store`` until `close`; ``broken`` gets a sentence where it is taken early."""

    def __init__(self, store: Any, broken: list[str]) -> None:
        super().__init__(name="lease watch")
        self._store, self._broken, self._closing = store, broken, False
        self.holder = ""

    def run(self) -> None:
        """Look at the Lease after every change of an object."""
        version, renewed = "", time.monotonic()
        with self._store.changed:
            while not self._closing:
                for lease in self._store.listed("leases", "default"):
                    now, holder = time.monotonic(), lease["spec"]["holderIdentity"]
                    if holder != self.holder and now - renewed < _COUNTED_ON_SECONDS and version:
                        self._broken.append(
                            f"another server took the Lease {now - renewed:.1f} s after it was renewed"
                        )
                    if lease["metadata"]["resourceVersion"] != version:
                        version, renewed = lease["metadata"]["resourceVersion"], now
                    self.holder = holder
                self._store.changed.wait()

    def close(self) -> None:
        """End."""
        with self._store.changed:
            self._closing = True
            self._store.changed.notify_all()
        self.join()
