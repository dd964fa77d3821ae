"""Time-ordered identifiers from an injected clock and generator."""

import os
import random
import threading
from datetime import datetime

from prx.domain.forking import renew_in_children

_SUBMILLISECOND_BITS = 12


class Ids:
    """Source of UUIDv7 texts (RFC 9562 section 5.7); strictly increasing within one source.

    Args: `rng`: where the random bits come from; `random.SystemRandom()` in production, a seeded
        `random.Random` where runs must repeat.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._last = -1

    def new(self, now: datetime) -> str:
        """A new id whose first 48 bits are `now` in milliseconds; never smaller than the one before."""
        milliseconds = int(now.timestamp() * 1000)
        stamp = (milliseconds << _SUBMILLISECOND_BITS) | self._rng.getrandbits(_SUBMILLISECOND_BITS - 1)
        self._last = stamp = max(stamp, self._last + 1)
        high, low = stamp >> _SUBMILLISECOND_BITS, stamp & 0xFFF
        bits = (high << 80) | (0x7 << 76) | (low << 64) | (0b10 << 62) | self._rng.getrandbits(62)
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def secret(self) -> str:
        """128 random bits as 32 hexadecimal digits, independent of the time; salts are made so."""
        return f"{self._rng.getrandbits(128):032x}"

    def snapshot(self, now: datetime) -> str:
        """A new snapshot id, `snap_<uuid>`."""
        return f"snap_{self.new(now)}"


class SystemBits(random.SystemRandom):
    """The operating system's generator, asked for many bits at a time; no bit is given twice, nor to a
    forked child what its parent may give."""

    _AHEAD = 4096
    _lock: threading.Lock
    _bytes: bytes
    _at: int

    def __init__(self) -> None:
        super().__init__()
        self._start_over()
        renew_in_children(self._start_over)

    def getrandbits(self, k: int) -> int:
        """As `random.getrandbits`."""
        size = (k + 7) // 8
        if k < 0 or size > self._AHEAD:
            return super().getrandbits(k)
        with self._lock:
            at = self._at
            if at + size > len(self._bytes):
                self._bytes, at = os.urandom(self._AHEAD), 0
            self._at = at + size
            taken = self._bytes[at : at + size]
        return int.from_bytes(taken, "big") >> (size * 8 - k)

    def _start_over(self) -> None:
        self._lock = threading.Lock()
        self._bytes, self._at = b"", 0


def system_ids() -> Ids:
    """Ids from the operating system's generator."""
    return Ids(SystemBits())


def cycle_id(now: datetime) -> str:
    """Name of the evolution cycle that started at `now`: `cycle_<ISO time>`."""
    return f"cycle_{now.strftime('%Y-%m-%dT%H:%M:%SZ')}"
