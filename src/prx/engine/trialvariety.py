"""Whether scores vary enough for a look: what a test of means needs under an uneven split."""

import numpy as np

from prx.domain.answers import NotEnoughData, Passed
from prx.domain.experiments import Plan
from prx.stats.unitsums import Floats
from prx.stats.variety import enough_variety

EVEN = (0.4, 0.6)


def variety_answer(plan: Plan, values: tuple[Floats, Floats]) -> Passed | NotEnoughData:
    """Refuse a look at a rare outcome under an uneven split: a true null would be rejected too often there.

    With like arms the skews of both cancel and the level holds without it. values: one number per unit,
    control and treatment (`unit_deviations`).
    """
    if EVEN[0] <= plan.traffic_split <= EVEN[1]:
        return Passed("arms of like size: rare outcomes do no harm")
    # Unit means of equal scores may differ in the last digit.
    return enough_variety(*(np.round(own, 9) for own in values))
