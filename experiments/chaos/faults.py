"""Faults injected while the controller is killed, beside those of messages (`fault_proxy`)."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable

from chaos_cluster import ChaosCluster
from commands import CoreWait, holds_within, kill, one_of
from damage import CheckpointDamage
from fault_proxy import InjectedFault
from flood import Flood, HostileUser
from noticed import Noticed

from volvelle.model.problems import Problem
from volvelle.model.units import DAY

_MAX_ABSENCE_SECONDS = 4.0
_GIVEN_UP_SECONDS = 120.0
_CLOCKS_OFF_SECONDS = [sign * days * DAY for days in (1 / 24, 1, 40, 400) for sign in (1, -1)]
_START_SECONDS = 20.0
_FLOOD_SECONDS, _HOSTILE_SECONDS = 2.0, 6.0
_STOPPED_SECONDS = 12.0, 62.0
_ANSWER_SECONDS = 20.0


class Faults:
    """Faults of ``cluster``. ``injected``: how often each was injected. ``unserved``: what floods did."""

    def __init__(self, cluster: ChaosCluster, rng: random.Random, injected: Counter[str]) -> None:
        self.cluster, self._rng, self._injected = cluster, rng, injected
        self._background: threading.Thread | None = None
        self.noticed = Noticed(cluster)
        self.damage = CheckpointDamage(cluster.disk.path, rng)
        self.unserved: list[str] = []
        self.flood_connections = 0

    def inject_one(self) -> None:
        """Inject a random fault."""
        faults: list[tuple[int, Callable[[], InjectedFault]]] = [
            (4, self._kill_agent),
            (3, self._kill_supervisor),
            (4, self._kill_job),
            (3, self._disconnect),
            (self.cluster.backend.removal_weight, self._remove_node_for_a_while),
            (3, self._fill_disk),
            (4, self._stop_store),
            (4, self._set_a_clock),
            (2, self._start_on_a_full_disk),
            (2, self._flood),
            (2, self._suffer_a_hostile_user),
            (2, self._revoke_a_token),
            (4, self.damage.damage_one),
            (self.cluster.backend.copy_weight, self._copy_a_folder),
            (self.cluster.backend.deletion_weight, self.delete_a_folder),
            (
                self.cluster.backend.disturbance_weight,
                lambda: self.cluster.backend.disturb(self._rng),
            ),
        ]
        weights, kinds = zip(*faults, strict=True)
        (fault,) = self._rng.choices(kinds, weights)
        self.note(fault())

    def note(self, what: InjectedFault) -> None:
        """Count an injected fault."""
        if what is not None:
            self._injected[what] += 1

    def _kill_agent(self) -> InjectedFault:
        return self.cluster.backend.kill_agent(self._rng)

    def _kill_supervisor(self) -> InjectedFault:
        return self._kill_one("supervisor.py", "supervisor killed")

    def _kill_job(self) -> InjectedFault:
        return self._kill_one("traced_job.py", "job killed")

    def _kill_one(self, program: str, fault: str) -> InjectedFault:
        pid = one_of(self.cluster.processes(), program, self._rng)
        return fault if pid is not None and kill(pid) else None

    def _disconnect(self) -> InjectedFault:
        return self.cluster.backend.disconnect(self._rng.choice(self.cluster.backend.nodes))

    def _remove_node_for_a_while(self) -> InjectedFault:
        backend = self.cluster.backend
        node, seconds = (
            self._rng.choice(backend.nodes),
            self._rng.uniform(0.0, _MAX_ABSENCE_SECONDS),
        )

        def remove() -> InjectedFault:
            backend.remove_node(node)
            time.sleep(seconds)
            backend.restore_node(node)
            return f"{backend.removal_name} for a while"

        return self._in_background(remove)

    def _fill_disk(self) -> InjectedFault:
        """Fill the disk of all, or one that is a node's alone."""
        seconds = self._rng.uniform(1.0, 2 * _MAX_ABSENCE_SECONDS)
        disk = self._rng.choice([self.cluster.disk, *self.cluster.backend.disks])

        def fill() -> InjectedFault:
            disk.fill()
            full = disk.full
            time.sleep(seconds)
            disk.clear()
            return (
                f"disk {'' if disk is self.cluster.disk else 'of a node '}filled" if full else None
            )

        return self._in_background(fill) if disk.real else None

    def _stop_store(self) -> InjectedFault:
        seconds = self._rng.uniform(0.5, 1.5 * _MAX_ABSENCE_SECONDS)
        return self._in_background(lambda: self.cluster.store.stop(seconds))

    def _set_a_clock(self) -> InjectedFault:
        """Set the clock of the server or an agent wrong, or right again."""
        command = self._rng.choice(self.cluster.commands)
        ahead = self._rng.choice([0.0, *_CLOCKS_OFF_SECONDS])
        command.set_clock(ahead)
        if not ahead:
            return None
        return f"clock set {abs(ahead) / DAY:.2g} days {'ahead' if ahead > 0 else 'back'}"

    def set_clocks_right(self) -> None:
        """End the faults of clocks."""
        for command in self.cluster.commands:
            command.set_clock(0.0)

    def _start_on_a_full_disk(self) -> InjectedFault:
        """Kill the server and start it on a full disk, which is cleared once it has ended or is ready."""
        cluster = self.cluster
        if not cluster.disk.real:
            return None
        self.join()
        cluster.disk.fill()
        cluster.server.hold()
        exits, until = cluster.server.exits, time.monotonic() + _START_SECONDS
        cluster.server.restart_now()
        while cluster.server.exits == exits and time.monotonic() < until:
            if cluster.get("/readyz") is not None:
                break
            time.sleep(0.1)
        full = cluster.disk.full
        cluster.disk.clear()
        return "controller killed and started on a full disk" if full else None

    def _flood(self) -> InjectedFault:
        return self._attack(self.cluster.flood, _FLOOD_SECONDS, "flood of connections and requests")

    def _suffer_a_hostile_user(self) -> InjectedFault:
        return self._attack(self.cluster.hostile_user, _HOSTILE_SECONDS, "hostile user beside")

    def _attack(
        self, begin: Callable[[tuple[str, int]], Flood | HostileUser], seconds: float, name: str
    ) -> InjectedFault:
        """Attack API and agents' port while a user asks for the queue."""
        cluster, exits = self.cluster, self.cluster.server.exits
        self.join()
        until = time.monotonic() + _START_SECONDS
        while (agents := cluster.backend.agents_address) is None or cluster.get("/readyz") is None:
            if time.monotonic() > until:
                return None
            time.sleep(0.1)
        try:
            flood, until = begin(agents), time.monotonic() + seconds
        except Problem:
            return None
        while time.monotonic() < until:
            began, waited = time.monotonic(), CoreWait(cluster.server.pid)
            answer, took = cluster.get("/v1/jobs"), time.monotonic() - began
            without_core = waited.seconds
            if answer is None or took - without_core > _ANSWER_SECONDS:
                ended = cluster.server.exits > exits
                last = cluster.server.last_line if ended else "the server runs"
                self.unserved.append(
                    f"{name}: the queue was {'' if answer else 'not '}answered after {took:.0f} s, "
                    f"{without_core:.0f} of them without a core: {last}"
                )
            time.sleep(0.1)
        flood.end()
        if flood.let_in:
            self.unserved.append(f"{flood.let_in} strangers were let in as agents")
        self.flood_connections += flood.sent
        return name

    def _revoke_a_token(self) -> InjectedFault:
        self.join()
        return self.noticed.revoke_a_token()

    def _copy_a_folder(self) -> InjectedFault:
        self.join()
        return self.noticed.copy_a_folder()

    def take_the_store_away(self) -> InjectedFault:
        """Take the file of the store away, where it is one."""
        self.join()
        return self.noticed.take_the_store_away()

    def stop_the_server(self) -> InjectedFault:
        """Stop the server, as a machine does that swaps or is moved, for longer than a lease."""
        self.join()
        holds_within(_START_SECONDS, lambda: self.cluster.get("/readyz") is not None)
        shortest, longest = _STOPPED_SECONDS
        seconds = shortest * (longest / shortest) ** self._rng.random()
        stopped = self.cluster.server.stop(seconds)
        return "controller stopped for 12 to 62 s" if stopped else None

    def _in_background(self, fault: Callable[[], InjectedFault]) -> InjectedFault:
        """Inject a fault in a thread, unless another one is still active."""
        if self._background is None or not self._background.is_alive():
            self._background = threading.Thread(target=lambda: self.note(fault()))
            self._background.start()
        return None

    def delete_a_folder(self) -> InjectedFault:
        """Kill an agent and delete its folder, with what it knows of the jobs that run there."""
        return self.cluster.backend.delete_folder(self._rng)

    def join(self) -> None:
        """Wait until the fault in the background is over."""
        if self._background is not None:
            self._background.join()

    def remove_a_node_until_given_up(self) -> None:
        """Remove a node until the controller has given it up, then add it again."""
        self.join()
        backend = self.cluster.backend
        if not backend.removal_weight:
            return
        node = self._rng.choice(backend.nodes)
        backend.remove_node(node)
        until = time.monotonic() + _GIVEN_UP_SECONDS
        while time.monotonic() < until:
            answer = self.cluster.get("/v1/nodes") or {"nodes": []}
            if any(each["name"] == node and each["state"] == "down" for each in answer["nodes"]):
                self._injected[f"{backend.removal_name} until it was given up"] += 1
                break
            time.sleep(0.5)
        backend.restore_node(node)
