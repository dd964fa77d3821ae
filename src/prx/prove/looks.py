"""When a growing sample may be looked at, and what a paired comparison says at a look."""

from collections.abc import Sequence

from prx.domain.answers import Failed, NotEnoughData, Passed
from prx.prove.intervals import Estimate, paired_difference


def look_at(available: int, first: int, last: int, *, exhausted: bool) -> tuple[int, bool] | None:
    """How many of `available` values count now, and whether that is the last look; None: too few.

    Looks are at `first`, its doubles, and `last`; with `exhausted` input the last look is what there is.
    Looking only then, and asking for more confidence before the last look, keeps the error of repeated
    looks near that of one (Haybittle 1971, Peto et al. 1976).
    """
    if available >= last:
        return last, True
    if exhausted:
        return (available, True) if available >= first else None
    size = 0
    step = first
    while step <= available:
        size, step = step, step * 2
    return (size, False) if size else None


def compare(
    differences: Sequence[float],
    *,
    margin: float,
    confidence: float,
    what: str,
    code: str,
    final: bool,
) -> tuple[Passed | Failed | NotEnoughData, Estimate | None]:
    """Whether candidate minus stable (paired, score points) is non-inferior by `margin`.

    Fails when the upper bound is below 0: shown to be worse. In between more pairs are needed.
    """
    estimate = paired_difference(differences, confidence)
    if estimate is None:
        return NotEnoughData(f"no pair has a {what}"), None
    said = (
        f"{what} differs by {estimate.mean:+.3f} (bounds {estimate.low:+.3f} to {estimate.high:+.3f} "
        f"at {confidence:.0%} each, {estimate.n} pairs)"
    )
    if estimate.low > -margin:
        return Passed(f"{said}, not worse by {margin:g}"), estimate
    if estimate.high < 0:
        return Failed(f"{said}: the candidate is worse", code), estimate
    more = "no more pairs will come" if final else "more pairs are needed"
    return NotEnoughData(f"{said}, which leaves a loss of {margin:g} possible; {more}"), estimate
