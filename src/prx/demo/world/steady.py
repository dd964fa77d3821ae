"""Identifiers that do not tell the date, so that whatever is drawn by them repeats on any day."""

import random
from datetime import datetime

from prx.domain.ids import Ids

_EPOCH = datetime.fromisoformat("2026-01-05T00:00:00+00:00")


class SteadyIds(Ids):
    """Ids that count from one fixed date, whenever the simulated time starts; later ones stay larger."""

    def __init__(self, rng: random.Random, start: datetime) -> None:
        super().__init__(rng)
        self._start = start

    def new(self, now: datetime) -> str:
        """A new id for the time since the start."""
        return super().new(_EPOCH + (now - self._start))
