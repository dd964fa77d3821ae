"""Time-ordered identifiers from an injected clock and generator."""

import random
import uuid
from datetime import datetime

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
        return str(uuid.UUID(int=bits))

    def secret(self) -> str:
        """128 random bits as 32 hexadecimal digits, independent of the time; salts are made so."""
        return f"{self._rng.getrandbits(128):032x}"

    def snapshot(self, now: datetime) -> str:
        """A new snapshot id, `snap_<uuid>`."""
        return f"snap_{self.new(now)}"


def system_ids() -> Ids:
    """Ids from the operating system's generator."""
    return Ids(random.SystemRandom())


def cycle_id(now: datetime) -> str:
    """Name of the evolution cycle that started at `now`: `cycle_<ISO time>`."""
    return f"cycle_{now.strftime('%Y-%m-%dT%H:%M:%SZ')}"
