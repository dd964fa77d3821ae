"""Whether the comparison itself can be trusted: sample ratio, exposures, contamination."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, gammaln, xlogy

from prx.domain.answers import Answer, Failed, NotEnoughData, Passed
from prx.domain.errors import BadStatistics
from prx.stats.unitsums import Floats

ALPHA = 0.001
LEAST_EXPECTED = 5.0


@dataclass(frozen=True, slots=True)
class RatioTest:
    """Chi-square of counts against expected shares; p of this look alone, not for repeated looks."""

    statistic: float
    p_value: float
    df: int


@dataclass(frozen=True, slots=True)
class SequentialTest:
    """log_evidence: largest log Bayes factor against balance so far; p_value: always-valid, exp of its
    negative, 0..1; crossed_at: first look (0-based) with p below the level, None if none."""

    log_evidence: float
    p_value: float
    crossed_at: int | None


@dataclass(frozen=True, slots=True)
class Exposures:
    """The three records of one arm, in units: assigned, exposed of those, and with an outcome of those."""

    assigned: int
    exposed: int
    with_outcome: int


def srm(counts: Sequence[int], expected: Sequence[float]) -> RatioTest | NotEnoughData:
    """Sample-ratio test at one look: Pearson's chi-square of units per arm against expected shares.

    expected: shares of any common scale, above 0, such as (0.5, 0.5). Not enough data while an expected
    count is below 5. Raises: BadStatistics. Source: Pearson 1900; Fabijan et al. 2019 (KDD).
    """
    seen, share = _checked(counts, expected)
    want = seen.sum() * share
    if float(want.min()) < LEAST_EXPECTED:
        return NotEnoughData(f"{int(seen.sum())} units; the smallest arm expects {want.min():.1f} of 5")
    statistic = float(((seen - want) ** 2 / want).sum())
    df = len(share) - 1
    return RatioTest(statistic, float(chdtrc(df, statistic)), df)


def sequential_srm(
    looks: Sequence[Sequence[int]],
    expected: Sequence[float],
    *,
    concentration: float = 1000.0,
    alpha: float = ALPHA,
) -> SequentialTest | NotEnoughData:
    """Sample-ratio test for any number of looks: Dirichlet-multinomial against the expected shares.

    looks: cumulative units per arm, oldest look first. concentration: weight of the prior at the expected
    shares, in units. Raises: BadStatistics, also where a count goes back between looks.
    Source: Lindon and Malek 2022 (NeurIPS, "Anytime-valid inference for multinomial count data").
    """
    if not looks or sum(looks[-1]) == 0:
        return NotEnoughData("no unit is assigned yet")
    if not (math.isfinite(concentration) and concentration > 0):
        raise BadStatistics(f"the concentration is {concentration}; it must be finite and above 0")
    evidence: list[float] = []
    before: Floats | None = None
    for counts in looks:
        seen, share = _checked(counts, expected)
        if before is not None and (seen < before).any():
            raise BadStatistics(f"units per arm went back from {before} to {seen}; looks must be cumulative")
        before = seen
        evidence.append(log_dirichlet_multinomial(seen, concentration * share) - log_multinomial(seen, share))
    return sequential_test(evidence, alpha)


def log_dirichlet_multinomial(counts: Sequence[float] | Floats, prior: Sequence[float] | Floats) -> float:
    """Log marginal probability of a sequence of units with these counts under a Dirichlet prior."""
    seen, weight = np.asarray(counts, dtype=np.float64), np.asarray(prior, dtype=np.float64)
    start = gammaln(weight.sum()) - gammaln(weight.sum() + seen.sum())
    return float(start + (gammaln(weight + seen) - gammaln(weight)).sum())


def log_multinomial(counts: Sequence[float] | Floats, share: Sequence[float] | Floats) -> float:
    """Log probability of a sequence of units with these counts under fixed shares."""
    return float(xlogy(np.asarray(counts, dtype=np.float64), np.asarray(share, dtype=np.float64)).sum())


def ratio_answer(
    looks: Sequence[Sequence[int]], expected: Sequence[float], *, alpha: float = ALPHA
) -> Answer:
    """Failed (`sample_ratio`) once the sequential test has crossed `alpha` at any look."""
    found = sequential_srm(looks, expected, alpha=alpha)
    if isinstance(found, NotEnoughData):
        return found
    said = f"units per arm {tuple(looks[-1])}, sequential p {found.p_value:.2g}"
    if found.crossed_at is not None:
        return Failed(f"{said}: assignment and records do not give the planned split", "sample_ratio")
    return Passed(said)


def contamination_answer(
    sessions: Sequence[int], served_other: Sequence[int], *, limit: float = 0.05
) -> Answer:
    """Failed (`contamination`) where over `limit` of an arm's sessions were served by another variant."""
    if len(sessions) != len(served_other) or any(
        not 0 <= other <= every for every, other in zip(sessions, served_other, strict=False)
    ):
        raise BadStatistics(
            f"{tuple(served_other)} of {tuple(sessions)} sessions served otherwise; read again"
        )
    if not sessions or min(sessions) == 0:
        return NotEnoughData("an arm has no session yet")
    worst = max(other / every for every, other in zip(sessions, served_other, strict=True))
    said = f"up to {worst:.1%} of an arm's sessions were served by another variant, {limit:.0%} allowed"
    return Failed(said, "contamination") if worst > limit else Passed(said)


def exposure_answer(
    arms: Sequence[Exposures],
    *,
    exposed_unassigned: int = 0,
    in_both_arms: int = 0,
    alpha: float = ALPHA,
    looks: int = 60,
) -> Answer:
    """Whether assignment, exposure and outcome records agree.

    Failed (`exposure`) where a unit was exposed without assignment, a unit has records in two arms, or
    the share of assigned units that were exposed, or of exposed ones with an outcome, differs by arm with
    a chi-square p below alpha / (2 looks), so that `alpha` holds over both shares and that many looks
    (counts below 5 expected are not tested).
    """
    if any(not 0 <= a.with_outcome <= a.exposed <= a.assigned for a in arms):
        raise BadStatistics(f"outcomes, exposures and assignments are not nested: {tuple(arms)}")
    if exposed_unassigned or in_both_arms:
        return Failed(
            f"{exposed_unassigned} units exposed without assignment, {in_both_arms} units in both arms",
            "exposure",
        )
    if not any(a.assigned for a in arms):
        return NotEnoughData("no unit is assigned yet")
    for word, parts in (
        ("exposed", [(a.exposed, a.assigned) for a in arms]),
        ("with an outcome", [(a.with_outcome, a.exposed) for a in arms]),
    ):
        p = _same_share_p(parts)
        if p is not None and p < alpha / (2 * looks):
            shares = ", ".join(f"{part / every:.1%}" for part, every in parts if every)
            return Failed(f"the share of units {word} differs by arm ({shares}; p {p:.2g})", "exposure")
    return Passed("assignment, exposure and outcome records agree")


def _checked(counts: Sequence[int], expected: Sequence[float]) -> tuple[Floats, Floats]:
    try:
        seen, share = np.asarray(counts, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadStatistics(f"counts and expected shares must be numbers: {error}") from error
    if seen.ndim != 1 or seen.shape != share.shape or len(seen) < 2:
        raise BadStatistics(
            f"{seen.size} counts and {share.size} expected shares; give one of each per arm, 2 or more"
        )
    if not np.isfinite(seen).all() or (seen < 0).any() or (seen != np.rint(seen)).any():
        raise BadStatistics(f"counts are {tuple(counts)}; they must be whole numbers of units")
    if not np.isfinite(share).all() or (share <= 0).any():
        raise BadStatistics(f"expected shares are {tuple(expected)}; each must be finite and above 0")
    return seen, share / share.sum()


def sequential_test(evidence: Sequence[float], alpha: float) -> SequentialTest:
    """The test whose log evidence after each look is given (an e-process: its mean stays at most 1)."""
    peak = max(evidence)
    crossed = next((k for k, e in enumerate(evidence) if e > -math.log(alpha)), None)
    return SequentialTest(peak, min(1.0, math.exp(-max(0.0, peak))), crossed)


def _same_share_p(parts: Sequence[tuple[int, int]]) -> float | None:
    part = np.array([p for p, _ in parts], dtype=np.float64)
    every = np.array([e for _, e in parts], dtype=np.float64)
    if len(parts) < 2 or not every.sum():
        return None
    share = part.sum() / every.sum()
    want = np.stack((every * share, every * (1 - share)))
    if float(want.min()) < LEAST_EXPECTED:
        return None
    seen = np.stack((part, every - part))
    return float(chdtrc(len(parts) - 1, float(((seen - want) ** 2 / want).sum())))
