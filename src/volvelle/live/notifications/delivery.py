"""Delivers notifications, in threads of its own: at least once, each target's in their order.

Notifications wait in the store's outbox. A target that fails is tried again, after pauses that double; others
do not wait for it. Only delivered notifications leave the outbox: a server that ends before that sends them
again, under the same id, when it is back.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from volvelle.live.notifications import mail
from volvelle.live.notifications.failures import DeliveryFailed
from volvelle.live.notifications.settings import NotificationSettings
from volvelle.live.notifications.webhook import Webhooks
from volvelle.live.notify import NotifiedEvent, mail_domain, place_of
from volvelle.live.store import Notification, StoreFailed
from volvelle.live.store.outbox import Outbox

_THREADS = 4
_MAX_IN_A_MAIL = 200
_GIVE_UP_SECONDS = 86_400.0
_REMEMBER_SECONDS = 30 * 86_400.0
"""The time for which a notification of a deadline at risk is not repeated, in seconds."""

_MAX_PROBLEMS = 3
TOLD_ONCE = NotifiedEvent.DEADLINE_AT_RISK


@dataclass(frozen=True)
class Pauses:
    """Seconds between tries, and between two mails to one address."""

    first: float = 1.0
    longest: float = 600.0
    mail: float = 60.0


@dataclass
class _Target:
    """Notifications for one target. due: the time of the next try, on the monotonic clock."""

    waiting: deque[Notification] = field(default_factory=deque)
    due: float = 0.0
    tries: int = 0
    busy: bool = False


class Delivery:
    """Delivers what is in ``outbox``, as ``settings`` say. Raises `Problem` if a secret cannot be read."""

    def __init__(
        self,
        outbox: Outbox,
        settings: NotificationSettings,
        pauses: Pauses = Pauses(),
    ) -> None:
        self._outbox = outbox
        self._settings = settings
        self._keys = settings.read_keys()
        self._password = settings.read_password()
        self._webhooks = Webhooks()
        self._pauses = pauses
        self._targets: dict[str, _Target] = {}
        self._waiting: Counter[str] = Counter()
        """Notifications that wait, by account."""
        self._failures: dict[str, str] = {}
        """Why the last try failed, by domain or origin."""
        self._dropped: set[str] = set()
        """Accounts of which the latest were dropped."""
        self._store_problem = ""
        self._closing = False
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._run, name=f"notifications-{at}", daemon=True)
            for at in range(_THREADS if settings.any else 0)
        ]

    def start(self) -> None:
        """Go on with what waited when the last server ended, and deliver from now on.

        Raises `StoreFailed`.
        """
        self._outbox.forget(time.time() - _REMEMBER_SECONDS)
        self.add(self._outbox.list_waiting())
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End. Notifications that are being sent may still be delivered."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def admit(self, notifications: Sequence[Notification]) -> tuple[Notification, ...]:
        """The notifications that the outbox has room for; others are dropped, and `problems` says so."""
        if not notifications:
            return ()
        admitted = []
        settings = self._settings
        with self._changed:
            room = Counter(self._waiting)
            for each in notifications:
                most = settings.waiting_of_a_user if each.account else settings.waiting
                if room[each.account] < most:
                    room[each.account] += 1
                    self._dropped.discard(each.account)
                    admitted.append(each)
                else:
                    self._dropped.add(each.account)
        return tuple(admitted)

    def add(self, notifications: Sequence[Notification]) -> None:
        """Deliver these, which are in the outbox."""
        with self._changed:
            for each in notifications:
                self._targets.setdefault(each.target, _Target()).waiting.append(each)
                self._waiting[each.account] += 1
            if notifications:
                self._changed.notify_all()

    @property
    def problems(self) -> tuple[str, ...]:
        """Errors for people, without addresses of webhooks, which may be secrets."""
        with self._changed:
            failing = [
                f"notifications to {place} fail: {problem}"
                for place, problem in self._failures.items()
            ]
            dropped = [
                f"notifications of {account or 'operators'} are dropped: too many wait"
                for account in sorted(self._dropped)
            ]
        found = [*failing, *dropped]
        return (*found[:_MAX_PROBLEMS], *filter(None, [self._store_problem]))

    # ------------------------------------------------------------------ the threads

    def _run(self) -> None:
        while (chosen := self._next()) is not None:
            target, notifications = chosen
            problem, permanent = "", False
            try:
                self._send(target, notifications)
            except DeliveryFailed as failure:
                problem, permanent = str(failure), failure.permanent
            except Exception as error:  # a mistake of ours: other targets do not suffer from it
                problem = type(error).__name__
            self._sent(target, notifications, problem, permanent=permanent)

    def _next(self) -> tuple[str, list[Notification]] | None:
        """Wait for a target that is due; what to send to it. None: there is nothing more to do."""
        with self._changed:
            while not self._closing:
                self._forget_idle()
                idle = [
                    (each.due, name)
                    for name, each in self._targets.items()
                    if each.waiting and not each.busy
                ]
                due, name = min(idle, default=(None, ""))
                seconds = None if due is None else due - time.monotonic()
                if seconds is None or seconds > 0.0:
                    self._changed.wait(seconds)
                    continue
                target = self._targets[name]
                target.busy = True
                several = _MAX_IN_A_MAIL if mail_domain(name) else 1
                return name, [each for each, _ in zip(target.waiting, range(several), strict=False)]
        return None

    def _forget_idle(self) -> None:
        now = time.monotonic()
        over = [
            name
            for name, each in self._targets.items()
            if not (each.waiting or each.busy) and each.due <= now
        ]
        for name in over:
            del self._targets[name]

    def _send(self, target: str, notifications: Sequence[Notification]) -> None:
        """Send them; those that are not allowed any more are passed over. Raises `DeliveryFailed`."""
        operators = {each.target for each in self._settings.to}
        allowed = [
            each
            for each in notifications
            if (self._settings.allows(target) if each.account else target in operators)
        ]
        if not allowed:
            return
        if mail_domain(target) is None:
            first = allowed[0]
            self._webhooks.post(first, first.key if first.account else self._keys.get(target, ""))
        elif self._settings.mail is not None:
            mail.send(allowed, self._settings.mail, self._password)

    def _sent(
        self, name: str, notifications: Sequence[Notification], problem: str, *, permanent: bool
    ) -> None:
        """Settle what was delivered or is given up; else try again later."""
        given_up = permanent or notifications[0].created < time.time() - _GIVE_UP_SECONDS
        settled = not problem or given_up
        place = place_of(name)
        if settled:
            self._settle([each.id for each in notifications])
        with self._changed:
            self._failures.pop(place, None)
            if problem:
                self._failures[place] = problem
            target = self._targets[name]
            target.busy = False
            target.tries = 0 if settled else target.tries + 1
            if settled:
                for each in notifications:
                    target.waiting.popleft()
                    self._waiting[each.account] -= 1
                pause = self._pauses.mail if mail_domain(name) else 0.0
            else:
                pause = min(self._pauses.first * 2.0 ** (target.tries - 1), self._pauses.longest)
            target.due = time.monotonic() + pause
            self._changed.notify_all()

    def _settle(self, ids: Sequence[str]) -> None:
        """Take them from the outbox; where that fails, they are sent again after a restart."""
        try:
            self._outbox.settle(ids, time.time(), TOLD_ONCE)
            self._store_problem = ""
        except StoreFailed as failure:
            self._store_problem = f"notifications may be delivered twice: {failure}"
