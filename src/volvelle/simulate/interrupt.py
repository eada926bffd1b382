"""Ctrl-C during a simulation: noted, and heeded between two moments."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from volvelle.core.scheduler import Scheduler

_PATIENCE_SECONDS = 0.5  # after Ctrl-C


@contextmanager
def asked_to_stop() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed: noted at first, so that no moment is left half done.

    Pressed again it interrupts at once; so is, after `_PATIENCE_SECONDS`, a part that is being asked. Where
    SIGINT is handled otherwise, or outside the main thread, nothing is changed and the answer is always no.
    """
    asked = False
    alarms = hasattr(signal, "setitimer")  # not on Windows
    before = signal.getsignal(signal.SIGALRM) if alarms else None

    def note(signal_number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if alarms:
            signal.signal(signal.SIGALRM, _interrupt_answer)
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE_SECONDS, _PATIENCE_SECONDS)

    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, note)
    try:
        yield lambda: asked
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if asked and alarms:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before or signal.SIG_DFL)


def _interrupt_answer(signal_number: int, frame: FrameType | None) -> None:
    """Interrupt a part that is being asked: elsewhere a moment would be left half done."""
    while frame is not None and frame.f_code is not Scheduler.answer.__code__:
        frame = frame.f_back
    if frame is not None:
        raise KeyboardInterrupt
