"""Which change began a drop: the sessions under each change, in order, and where the step lies in them.

One step up (failures) or down (scores) at an unknown place; every change is as suspect as the next one before
the sessions are seen. A drop that a change made begins with the first session that it served: nine tenths of
the weight say so, the last tenth is spread over every later place, as it is over the time before all changes.
So a stretch of good sessions clears the change that served them, and a baseline that was bad already clears
the change that was built on it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

BEFORE = -1
_CREDIBLE = 0.95
_AT_ONCE = 0.9
_LEAST_VARIANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Onset:
    """Posterior probability of each stretch of sessions to hold the start of a drop, and the suspects.

    `shares[0]` is the time before the first change, `shares[k + 1]` change k. `suspects`: the fewest places
    that hold 95 % of the probability, most likely first; `BEFORE` for the time before every change.
    """

    shares: tuple[float, ...]
    suspects: tuple[int, ...]


def onset(stretches: Sequence[Sequence[float]], *, failures: bool) -> Onset | None:
    """Where values got worse; None when no place splits them into better and then worse ones.

    `stretches`: values of sessions in order of time, first those before any change, then those under each
    change, oldest change first; a change that served none has an empty one. `failures`: values are 1 for a
    failed session, else 0, and more is worse; else they are scores, and less is worse.

    Marginal likelihood of a step: Beta(1/2, 1/2) on the rate of either side (failures), or normal with one
    variance, profiled (scores). Source: Smith, Biometrika 62 (1975), 407-416, "A Bayesian approach to
    inference about a change-point in a sequence of random variables", sections 2 and 3.
    """
    values = [value for stretch in stretches for value in stretch]
    if not values or not any(stretches[1:]):
        return None
    sums, squares = [0.0, *accumulate(values)], [0.0, *accumulate(v * v for v in values)]
    weights: list[list[float]] = [[] for _ in stretches]
    place = 0
    for number, stretch in enumerate(stretches):
        for offset in range(len(stretch)):
            split = place + offset
            likelihood = _failing(sums, split) if failures else _lower(sums, squares, split)
            if likelihood is not None:
                weights[number].append(likelihood + _prior(number, offset, len(stretch)))
        place += len(stretch)
    best = max((max(one) for one in weights if one), default=None)
    if best is None:
        return None
    raw = [math.fsum(math.exp(w - best) for w in one) for one in weights]
    return _suspects(_shared(raw, stretches))


def _prior(number: int, offset: int, length: int) -> float:
    """Log weight of a start at this place; the time before all changes has no beginning of its own."""
    if number == 0:
        return math.log((1 - _AT_ONCE) / length)
    return math.log(_AT_ONCE) if offset == 0 else math.log((1 - _AT_ONCE) / (length - 1))


def _failing(sums: Sequence[float], place: int) -> float | None:
    n = len(sums) - 1
    early, late = sums[place], sums[n] - sums[place]
    if place == 0 or early / place >= late / (n - place):
        return None
    return _log_beta(early, place) + _log_beta(late, n - place)


def _lower(sums: Sequence[float], squares: Sequence[float], place: int) -> float | None:
    n = len(sums) - 1
    if place == 0:
        return None
    early, late = sums[place] / place, (sums[n] - sums[place]) / (n - place)
    if early <= late:
        return None
    rest = squares[n] - place * early * early - (n - place) * late * late
    return -n / 2 * math.log(max(rest / n, _LEAST_VARIANCE))


def _log_beta(hits: float, n: float) -> float:
    return math.lgamma(hits + 0.5) + math.lgamma(n - hits + 0.5) - math.lgamma(n + 1.0)


def _shared(raw: Sequence[float], stretches: Sequence[Sequence[float]]) -> list[float]:
    """A change that served no session may have done all that the next one seems to have done."""
    shares = list(raw)
    for number in range(len(shares) - 2, 0, -1):
        if not stretches[number]:
            shares[number] = shares[number + 1]
    total = math.fsum(shares)
    return [share / total for share in shares]


def _suspects(shares: Sequence[float]) -> Onset:
    ranked = sorted(range(len(shares)), key=lambda place: -shares[place])
    kept, held = [], 0.0
    for place in ranked:
        if held >= _CREDIBLE:
            break
        kept.append(place + BEFORE)
        held += shares[place]
    return Onset(tuple(shares), tuple(kept))
