"""How large a difference is: absolute, relative, standardised, and as a chance between two units."""

import math
from dataclasses import dataclass

from scipy.special import gammaln, ndtri, stdtrit

from prx.domain.answers import Interval, NotEnoughData
from prx.domain.errors import BadStatistics
from prx.stats.estimator import Composite
from prx.stats.tails import t_interval, two_sided_p, upper_p
from prx.stats.twosample import brunner_munzel
from prx.stats.unitsums import Floats


@dataclass(frozen=True, slots=True)
class Effect:
    """A point value with its interval, both in the unit that the field's name says."""

    estimate: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Lift:
    """Relative change, 0.05 for +5 %; p values are of the ratio, of this look alone."""

    estimate: float
    interval: Interval
    se: float
    p_value: float
    p_greater: float


@dataclass(frozen=True, slots=True)
class EffectSizes:
    """absolute: score points; relative: share of the control mean; hedges_g: pooled unit standard deviations;
    common_language: P(a treated unit beats a control unit), ties half."""

    absolute: Effect
    relative: Lift | NotEnoughData
    hedges_g: Effect | NotEnoughData
    common_language: Effect | NotEnoughData


@dataclass(frozen=True, slots=True)
class ArmMean:
    """An arm's mean and the variance of that mean."""

    mean: float
    variance: float


def effect_sizes(
    result: Composite, control_units: Floats, treatment_units: Floats, *, confidence: float = 0.95
) -> EffectSizes:
    """All four sizes of one composite; `*_units` are one value per unit (`unitvalues.unit_deviations`)."""
    rank = brunner_munzel(control_units, treatment_units, confidence=confidence)
    return EffectSizes(
        absolute=Effect(result.delta, result.interval(confidence)),
        relative=fieller_lift(
            ArmMean(result.control.mean, result.control.variance),
            ArmMean(result.treatment.mean, result.treatment.variance),
            df=result.df,
            confidence=confidence,
        ),
        hedges_g=hedges_g(control_units, treatment_units, confidence=confidence),
        common_language=(rank if isinstance(rank, NotEnoughData) else Effect(rank.estimate, rank.interval)),
    )


def fieller_lift(
    control: ArmMean, treatment: ArmMean, *, df: float, confidence: float = 0.95
) -> Lift | NotEnoughData:
    """Treatment over control minus 1 with Fieller's interval, exact for normal means.

    Not enough data while the control mean is not clearly apart from 0, where no bounded interval exists.
    Source: Fieller 1954, J. R. Stat. Soc. B 16, without covariance.
    """
    _check(control, treatment, df)
    quantile = float(stdtrit(df, 0.5 + confidence / 2))
    g = quantile**2 * control.variance
    if control.mean**2 <= g:
        return NotEnoughData(
            "the control mean is not clearly apart from 0; a relative change has no interval"
        )
    a = control.mean**2 - g
    b = control.mean * treatment.mean
    c = treatment.mean**2 - quantile**2 * treatment.variance
    root = math.sqrt(max(0.0, b * b - a * c))
    point = delta_lift(control, treatment, df=df, confidence=confidence)
    if isinstance(point, NotEnoughData):
        return point
    sign = math.copysign(1.0, control.mean)
    t = (treatment.mean - control.mean) / math.sqrt(control.variance + treatment.variance) * sign
    return Lift(
        estimate=point.estimate,
        interval=Interval((b - root) / a - 1, (b + root) / a - 1),
        se=point.se,
        p_value=two_sided_p(t, df),
        p_greater=upper_p(t, df),
    )


def delta_lift(
    control: ArmMean, treatment: ArmMean, *, df: float, confidence: float = 0.95
) -> Lift | NotEnoughData:
    """(treatment - control) / |control| with the delta-method error; symmetric, for large samples.

    Source: first-order expansion, e.g. Deng, Knoblich and Lu 2018 (KDD).
    """
    _check(control, treatment, df)
    if control.mean == 0 or control.variance + treatment.variance == 0:
        return NotEnoughData("the control mean or both variances are 0; a relative change has no interval")
    estimate = (treatment.mean - control.mean) / abs(control.mean)
    ratio = treatment.mean / control.mean
    se = math.sqrt(treatment.variance + ratio**2 * control.variance) / abs(control.mean)
    t = estimate / se
    return Lift(estimate, t_interval(estimate, se, df, confidence), se, two_sided_p(t, df), upper_p(t, df))


def hedges_g(control: Floats, treatment: Floats, *, confidence: float = 0.95) -> Effect | NotEnoughData:
    """Bias-corrected standardised mean difference of unit values, in pooled standard deviations.

    Source: Hedges 1981, J. Educ. Stat. 6 (exact gamma correction); interval from the large-sample
    variance of Hedges and Olkin 1985, Statistical Methods for Meta-Analysis, ch. 5.
    """
    n, m = len(control), len(treatment)
    if min(n, m) < 3:
        return NotEnoughData(f"{min(n, m)} of 3 units in the smaller arm")
    df = n + m - 2
    pooled = math.sqrt(((n - 1) * float(control.var(ddof=1)) + (m - 1) * float(treatment.var(ddof=1))) / df)
    if pooled <= 1e-12:
        return NotEnoughData("all units of an arm score the same; there is no spread to measure in")
    correction = math.exp(float(gammaln(df / 2) - gammaln((df - 1) / 2))) / math.sqrt(df / 2)
    g = correction * float(treatment.mean() - control.mean()) / pooled
    se = math.sqrt((n + m) / (n * m) + g * g / (2 * (n + m)))
    half = float(ndtri(0.5 + confidence / 2)) * se
    return Effect(g, Interval(g - half, g + half))


def _check(control: ArmMean, treatment: ArmMean, df: float) -> None:
    values = (control.mean, control.variance, treatment.mean, treatment.variance, df)
    if not all(map(math.isfinite, values)) or min(control.variance, treatment.variance) < 0 or df <= 0:
        raise BadStatistics("a relative change needs finite means, variances of 0 or more and df above 0")
