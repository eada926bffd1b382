"""Threads of their own for what takes long to work out: forecasts and suggestions.

Nothing else waits behind them: authentication and reads of the store have the server's other threads.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from volvelle.live.http.authentication import Principal
from volvelle.live.http.errors import RETRY_AFTER_SECONDS, HttpError, unavailable

_OF_A_USER = 8
"""Forecasts of one user that are asked for at once."""

_T = TypeVar("_T")


class ForecastThreads:
    """Works out forecasts; an answer that takes longer than ``seconds``, waiting included, is given up.

    hint: the mend where that happens.
    """

    def __init__(self, seconds: float, threads: int = 2, hint: str = "try again soon") -> None:
        self.seconds, self._hint = seconds, hint
        self._threads = ThreadPoolExecutor(threads, "forecasts")
        self._asked: Counter[str] = Counter()

    async def run(self, principal: Principal, work: Callable[[], _T]) -> _T:
        """The result of ``work``.

        Raises `HttpError`: 429 where the user asks for too many at once, 503 where none is there in time.
        """
        if self._asked[principal.user] >= _OF_A_USER:
            raise HttpError(
                429,
                f"user {principal.user} waits for {_OF_A_USER} forecasts already",
                place="forecasts",
                hint="ask again when they are there",
                headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
            )
        self._asked[principal.user] += 1
        future = self._threads.submit(work)
        try:
            async with asyncio.timeout(self.seconds):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise unavailable(f"no forecast within {self.seconds:g} s", self._hint) from None
        finally:
            future.cancel()  # it has not begun, and its request was given up
            self._asked[principal.user] -= 1
