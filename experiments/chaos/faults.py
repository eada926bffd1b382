"""What else goes wrong while the controller is killed, beside the weather on the network (`fault_proxy`)."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable

from chaos_site import ChaosSite, kill
from commands import one_of
from fault_proxy import Happened

_AWAY_SECONDS = 4.0
_GIVEN_UP_SECONDS = 120.0


class Faults:
    """At ``site``; ``injected``: how often each was."""

    def __init__(self, site: ChaosSite, rng: random.Random, injected: Counter[str]) -> None:
        self.site, self._rng, self._injected = site, rng, injected
        self._background: threading.Thread | None = None

    def one(self) -> None:
        """Any of them."""
        faults: list[tuple[int, Callable[[], Happened]]] = [
            (4, self._kill_agent),
            (3, self._kill_keeper),
            (4, self._kill_job),
            (3, self._sever),
            (2, self._cut_off),
            (3, self._fill_disk),
            (4, self._stop_store),
        ]
        weights, kinds = zip(*faults, strict=True)
        (fault,) = self._rng.choices(kinds, weights)
        self._note(fault())

    def _note(self, what: Happened) -> None:
        if what is not None:
            self._injected[what] += 1

    def _kill_agent(self) -> Happened:
        agent = self._rng.choice(self.site.agents)
        return "agent killed" if agent.kill(self._rng.uniform(0.0, _AWAY_SECONDS)) else None

    def _kill_keeper(self) -> Happened:
        return self._kill_one("keeper.py", "keeper killed")

    def _kill_job(self) -> Happened:
        return self._kill_one("traced_job.py", "job killed")

    def _kill_one(self, which: str, said: str) -> Happened:
        pid = one_of(self.site.processes(), which, self._rng)
        return said if pid is not None and kill(pid) else None

    def _sever(self) -> Happened:
        self.site.proxy.sever(self._rng.choice(self.site.nodes))
        return "connection of an agent cut"

    def _cut_off(self) -> Happened:
        node, seconds = self._rng.choice(self.site.nodes), self._rng.uniform(0.0, _AWAY_SECONDS)

        def shut() -> Happened:
            self.site.proxy.shut(node)
            time.sleep(seconds)
            self.site.proxy.reopen(node)
            return "node cut off for a while"

        return self._meanwhile(shut)

    def _fill_disk(self) -> Happened:
        seconds = self._rng.uniform(1.0, 2 * _AWAY_SECONDS)

        def fill() -> Happened:
            self.site.disk.fill()
            full = self.site.disk.full
            time.sleep(seconds)
            self.site.disk.clear()
            return "disk filled" if full else None

        return self._meanwhile(fill) if self.site.disk.real else None

    def _stop_store(self) -> Happened:
        seconds = self._rng.uniform(0.5, 1.5 * _AWAY_SECONDS)
        return self._meanwhile(lambda: self.site.store.stop(seconds))

    def _meanwhile(self, fault: Callable[[], Happened]) -> Happened:
        """Have it go on beside the next kills; one at a time."""
        if self._background is None or not self._background.is_alive():
            self._background = threading.Thread(target=lambda: self._note(fault()))
            self._background.start()
        return None

    def join(self) -> None:
        """Wait until none goes on."""
        if self._background is not None:
            self._background.join()

    def give_up_a_node(self) -> None:
        """Cut a node off for so long that its lease runs out, and nobody believes in it any more."""
        self.join()
        node = self._rng.choice(self.site.nodes)
        self.site.proxy.shut(node)
        until = time.monotonic() + _GIVEN_UP_SECONDS
        while time.monotonic() < until:
            said = self.site.ask("/v1/nodes") or {"nodes": []}
            if any(each["name"] == node and each["state"] == "down" for each in said["nodes"]):
                self._injected["node cut off until it was given up"] += 1
                break
            time.sleep(0.5)
        self.site.proxy.reopen(node)
