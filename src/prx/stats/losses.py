"""Whether sessions that the engine lost, or judgements that did not run, spare one arm."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

from prx.domain.answers import Answer, Failed, NotEnoughData, Passed
from prx.domain.errors import BadStatistics
from prx.stats.unitsums import Floats
from prx.stats.validity import ALPHA, SequentialTest, sequential_test


@dataclass(frozen=True, slots=True)
class LossBlock:
    """Sessions of one look alone (not cumulated) and how many of them the engine lost, per arm."""

    control: int
    treatment: int
    control_lost: int
    treatment_lost: int

    def __post_init__(self) -> None:
        if not (0 <= self.control_lost <= self.control and 0 <= self.treatment_lost <= self.treatment):
            raise BadStatistics(f"more sessions lost than there were: {self}")


def loss_imbalance(blocks: Sequence[LossBlock], *, alpha: float = ALPHA) -> SequentialTest | NotEnoughData:
    """Sequential test that sessions lost by the engine, or judgements not run, do not differ by arm.

    Conditional on a look's sessions and losses, losses per arm are hypergeometric when both arms lose
    alike, whatever the rate and its drift. The evidence is a mixture over odds ratios of Fisher's
    noncentral hypergeometric likelihood, a product over looks, so p is valid at every look. Counts must
    be independent: count units where one user's sessions fail together. Raises: BadStatistics.
    Source: conditional e-values after Turner, Ly and Grunwald 2024 (J. Am. Stat. Assoc.), 2 x 2 tables.
    """
    if not any(b.control + b.treatment for b in blocks):
        return NotEnoughData("no session is due yet")
    half = np.geomspace(0.05, 4.0, 12)
    odds = np.concatenate((-half, half))
    running = np.zeros(len(odds))
    evidence: list[float] = []
    for block in blocks:
        running = running + _odds_evidence(block, odds)
        evidence.append(float(logsumexp(running) - math.log(len(odds))))
    return sequential_test(evidence, alpha)


def loss_answer(blocks: Sequence[LossBlock], *, alpha: float = ALPHA) -> Answer:
    """Failed (`lost_sessions`) once losses have differed by arm beyond `alpha` at any look."""
    found = loss_imbalance(blocks, alpha=alpha)
    if isinstance(found, NotEnoughData):
        return found
    lost = sum(b.control_lost for b in blocks), sum(b.treatment_lost for b in blocks)
    said = f"{lost[0]} control and {lost[1]} treatment sessions lost, sequential p {found.p_value:.2g}"
    if found.crossed_at is not None:
        return Failed(f"{said}: the arms do not lose alike", "lost_sessions")
    return Passed(said)


def _odds_evidence(block: LossBlock, odds: Floats) -> Floats:
    """log P(treatment_lost | margins, odds ratio) - log P(... | 1), per log odds ratio."""
    lost = block.control_lost + block.treatment_lost
    first, last = max(0, lost - block.control), min(lost, block.treatment)
    if first == last:
        return np.zeros(len(odds))
    x = np.arange(first, last + 1, dtype=np.float64)
    ways = (
        -gammaln(x + 1)
        - gammaln(block.treatment - x + 1)
        - gammaln(lost - x + 1)
        - gammaln(block.control - lost + x + 1)
    )
    tilted = ways + odds[:, None] * (x - block.treatment_lost)
    told = logsumexp(tilted, axis=1)
    return np.asarray(logsumexp(ways) - told, dtype=np.float64)
