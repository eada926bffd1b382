"""What else goes wrong while the controller is killed, beside the weather on the network (`fault_proxy`)."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable

from chaos_site import ChaosSite
from commands import kill, one_of
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
            (3, self._kill_supervisor),
            (4, self._kill_job),
            (self.site.ground.severs, self._sever),
            (self.site.ground.takes_away, self._take_a_node_away),
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
        return self.site.ground.kill_agent(self._rng)

    def _kill_supervisor(self) -> Happened:
        return self._kill_one("supervisor.py", "supervisor killed")

    def _kill_job(self) -> Happened:
        return self._kill_one("traced_job.py", "job killed")

    def _kill_one(self, which: str, said: str) -> Happened:
        pid = one_of(self.site.processes(), which, self._rng)
        return said if pid is not None and kill(pid) else None

    def _sever(self) -> Happened:
        return self.site.ground.sever(self._rng.choice(self.site.ground.nodes))

    def _take_a_node_away(self) -> Happened:
        ground = self.site.ground
        node, seconds = self._rng.choice(ground.nodes), self._rng.uniform(0.0, _AWAY_SECONDS)

        def be_away() -> Happened:
            ground.take_away(node)
            time.sleep(seconds)
            ground.bring_back(node)
            return f"{ground.taken} for a while"

        return self._meanwhile(be_away)

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
        """Take a node away for so long that nobody believes in it any more."""
        self.join()
        ground = self.site.ground
        if not ground.takes_away:
            return
        node = self._rng.choice(ground.nodes)
        ground.take_away(node)
        until = time.monotonic() + _GIVEN_UP_SECONDS
        while time.monotonic() < until:
            said = self.site.ask("/v1/nodes") or {"nodes": []}
            if any(each["name"] == node and each["state"] == "down" for each in said["nodes"]):
                self._injected[f"{ground.taken} until it was given up"] += 1
                break
            time.sleep(0.5)
        ground.bring_back(node)
