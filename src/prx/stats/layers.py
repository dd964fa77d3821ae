"""Two experiments on different layers at once: whether one changes what the other shows."""

import math
from dataclasses import dataclass

from prx.domain.answers import Answer, Failed, Interval, NotEnoughData, Passed
from prx.stats.estimator import Composite
from prx.stats.tails import t_interval, two_sided_p


@dataclass(frozen=True, slots=True)
class Interaction:
    """How much larger the effect is beside the other layer's treatment than beside its control.

    delta, se, interval in score points; p_value: naive, two-sided, of this look alone.
    """

    delta: float
    se: float
    df: float
    p_value: float
    interval: Interval


def interaction(
    beside_control: Composite | NotEnoughData,
    beside_treatment: Composite | NotEnoughData,
    *,
    confidence: float = 0.95,
) -> Interaction | NotEnoughData:
    """Difference of one experiment's effect between the units of the other experiment's arms.

    The two results come from disjoint units, so their variances add; degrees of freedom after Satterthwaite.
    """
    if isinstance(beside_control, NotEnoughData):
        return beside_control
    if isinstance(beside_treatment, NotEnoughData):
        return beside_treatment
    parts = beside_control.se**2, beside_treatment.se**2
    df = sum(parts) ** 2 / (parts[0] ** 2 / beside_control.df + parts[1] ** 2 / beside_treatment.df)
    se = math.sqrt(sum(parts))
    delta = beside_treatment.delta - beside_control.delta
    return Interaction(delta, se, df, two_sided_p(delta / se, df), t_interval(delta, se, df, confidence))


def other_layer_answer(beside_control: Composite | NotEnoughData, *, alpha: float = 0.05) -> Answer:
    """Failed (`other_layer`) where the effect is significantly negative beside the other layer's control.

    That is what would serve if the other experiment ended without promotion. Too little data passes nobody.
    """
    if isinstance(beside_control, NotEnoughData):
        return beside_control
    said = f"{beside_control.delta:+.4f} beside the other layer's control, p {beside_control.p_value:.2g}"
    if beside_control.delta < 0 and beside_control.p_value < alpha:
        return Failed(f"{said}: the gain needs the other change", "other_layer")
    return Passed(said)
