"""Tries a call again while nothing of its answer has begun, and no longer than its client waits."""

import asyncio
import email.utils
import random
import time
from collections.abc import Awaitable, Callable, Mapping

import aiohttp

from prx.gateway.straight import Answered
from prx.gateway.wire import Headers

# Of requests that found no answer, or one that may be another at the next time.
_PASSING = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
_LEAST, _MOST = 0.5, 8.0
_MARGIN = 0.25  # of the client's time that an answer must have left to begin
# What known clients call the seconds that they wait, and how many of them are one second.
_TIMEOUTS = {
    b"x-stainless-timeout": 1.0,
    b"x-stainless-read-timeout": 1.0,
    b"x-litellm-timeout": 1.0,
    b"x-portkey-request-timeout": 1000.0,
}


def patience(headers: Headers) -> float | None:
    """Seconds that the client says it waits for an answer; None when it does not say."""
    told: list[float] = []
    for name, value in headers:
        unit = _TIMEOUTS.get(name)
        if unit is not None and value.replace(b".", b"", 1).isdigit():
            told.append(float(value[:32]) / unit)
    return min((one for one in told if one > 0), default=None)


class Attempts:
    """One request's tries. `count`: those made; `spent`: it failed and was tried again as often as may be."""

    def __init__(
        self,
        retries: int,
        until: float | None,
        wait: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._retries, self._until, self._wait = retries, until, wait
        self._clock, self._jitter = clock, jitter
        self.count = 0
        self.spent = False

    async def ask(self, once: Callable[[], Awaitable[Answered]]) -> Answered:
        """The first answer that is worth giving on, else the last. Raises: as `once` at the last try."""
        while True:
            self.count += 1
            try:
                answer = await once()
            except (aiohttp.ClientError, OSError) as error:
                pause = self._pause({}) if _may_pass(error) else None
                if pause is None:
                    self.spent = self.count > 1
                    raise
            else:
                if answer.status not in _PASSING or answer.headers.get("x-should-retry") == "false":
                    return answer
                pause = self._pause(answer.headers)
                if pause is None:
                    self.spent = self.count > 1
                    return answer
                await _let_go(answer)
            self._wait -= pause
            await asyncio.sleep(pause)

    def _pause(self, headers: Mapping[str, str]) -> float | None:
        """Seconds until the next try; None when there is none."""
        if self.count > self._retries:
            return None
        told = _told(headers)
        doubled = min(_MOST, _LEAST * 2 ** (self.count - 1))
        pause = doubled * (1 - 0.25 * self._jitter()) if told is None else told
        if pause > self._wait or (self._until is not None and self._clock() + pause > self._until):
            return None
        return pause


def deadline(headers: Headers, now: float) -> float | None:
    """When the last try must have begun, on the clock of `now`; None when the client sets no end."""
    waits = patience(headers)
    return None if waits is None else now + waits * (1 - _MARGIN)


def _told(headers: Mapping[str, str]) -> float | None:
    """Seconds that the provider asks to wait."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000.0)
        text = headers.get("retry-after", "")
        if not text:
            return None
        if text.replace(".", "", 1).isdigit():
            return float(text)
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _may_pass(error: Exception) -> bool:
    """Whether the call may not have been served: an answer that takes too long most likely was begun."""
    return not isinstance(error, TimeoutError) or isinstance(error, aiohttp.ConnectionTimeoutError)


async def _let_go(answer: Answered) -> None:
    """Read a small rest, so that the connection can be used again."""
    try:
        if answer.content_length is not None and answer.content_length <= 65_536:
            await answer.read()
    except (aiohttp.ClientError, OSError):
        pass
    finally:
        answer.close()
