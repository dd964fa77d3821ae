"""Statistics of experiments: pure functions, numbers in, typed frozen results out.

Names below load their module, and with it numpy and scipy, on first use: `import prx.stats` alone is free.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prx.stats.anytime import Tally as Tally
    from prx.stats.anytime import anytime_p as anytime_p
    from prx.stats.anytime import asymptotic_interval as asymptotic_interval
    from prx.stats.anytime import critical_z as critical_z
    from prx.stats.anytime import exact_difference as exact_difference
    from prx.stats.anytime import exact_interval as exact_interval
    from prx.stats.conclusions import Conclusion as Conclusion
    from prx.stats.conclusions import Equivalent as Equivalent
    from prx.stats.conclusions import Evidence as Evidence
    from prx.stats.conclusions import Harmful as Harmful
    from prx.stats.conclusions import Inconclusive as Inconclusive
    from prx.stats.conclusions import Invalid as Invalid
    from prx.stats.conclusions import KeepControl as KeepControl
    from prx.stats.conclusions import Promote as Promote
    from prx.stats.conclusions import Rules as Rules
    from prx.stats.conclusions import conclude as conclude
    from prx.stats.conclusions import rank_test_needed as rank_test_needed
    from prx.stats.correlation import intraclass_correlation as intraclass_correlation
    from prx.stats.covariates import Adjustment as Adjustment
    from prx.stats.covariates import adjusted as adjusted
    from prx.stats.covariates import fit_adjustment as fit_adjustment
    from prx.stats.dimensions import FrozenDimensions as FrozenDimensions
    from prx.stats.dimensions import choose_dimensions as choose_dimensions
    from prx.stats.effects import EffectSizes as EffectSizes
    from prx.stats.effects import effect_sizes as effect_sizes
    from prx.stats.effects import fieller_lift as fieller_lift
    from prx.stats.effects import hedges_g as hedges_g
    from prx.stats.estimator import Composite as Composite
    from prx.stats.estimator import Floor as Floor
    from prx.stats.estimator import by_dimension as by_dimension
    from prx.stats.estimator import composite as composite
    from prx.stats.groupsequential import Boundaries as Boundaries
    from prx.stats.groupsequential import Crossing as Crossing
    from prx.stats.groupsequential import boundaries as boundaries
    from prx.stats.groupsequential import crossing as crossing
    from prx.stats.guardrails import Guardrail as Guardrail
    from prx.stats.guardrails import Reading as Reading
    from prx.stats.guardrails import gate as gate
    from prx.stats.guardrails import harm as harm
    from prx.stats.guardrails import reading as reading
    from prx.stats.inference import Inference as Inference
    from prx.stats.inference import conditional_power as conditional_power
    from prx.stats.inference import futility_z as futility_z
    from prx.stats.inference import infer as infer
    from prx.stats.inference import repeated_p as repeated_p
    from prx.stats.inference import repeated_upper_p as repeated_upper_p
    from prx.stats.losses import LossBlock as LossBlock
    from prx.stats.losses import loss_answer as loss_answer
    from prx.stats.losses import loss_imbalance as loss_imbalance
    from prx.stats.missing import MissingBound as MissingBound
    from prx.stats.missing import missing_bound as missing_bound
    from prx.stats.multiplicity import DimensionTest as DimensionTest
    from prx.stats.multiplicity import Family as Family
    from prx.stats.multiplicity import bonferroni as bonferroni
    from prx.stats.multiplicity import composite_first as composite_first
    from prx.stats.multiplicity import holm as holm
    from prx.stats.onlinefdr import AutomaticExperiment as AutomaticExperiment
    from prx.stats.onlinefdr import promotion_level as promotion_level
    from prx.stats.planning import Chance as Chance
    from prx.stats.planning import Forecast as Forecast
    from prx.stats.planning import Traffic as Traffic
    from prx.stats.planning import equivalence_sample as equivalence_sample
    from prx.stats.planning import forecast as forecast
    from prx.stats.planning import sample_per_arm as sample_per_arm
    from prx.stats.planning import smallest_effect as smallest_effect
    from prx.stats.power import fixed_information as fixed_information
    from prx.stats.power import futility_bounds as futility_bounds
    from prx.stats.power import inflation as inflation
    from prx.stats.power import power_of as power_of
    from prx.stats.spending import Spending as Spending
    from prx.stats.stopping import Design as Design
    from prx.stats.stopping import Look as Look
    from prx.stats.stopping import NoAlphaLeft as NoAlphaLeft
    from prx.stats.stopping import PlanEdited as PlanEdited
    from prx.stats.stopping import State as State
    from prx.stats.stopping import TimeWentBackwards as TimeWentBackwards
    from prx.stats.stopping import design_by_power as design_by_power
    from prx.stats.stopping import design_by_sample as design_by_sample
    from prx.stats.stopping import look as look
    from prx.stats.stopping import start as start
    from prx.stats.tails import t_to_z as t_to_z
    from prx.stats.twosample import BrunnerMunzel as BrunnerMunzel
    from prx.stats.twosample import MannWhitney as MannWhitney
    from prx.stats.twosample import Moments as Moments
    from prx.stats.twosample import Welch as Welch
    from prx.stats.twosample import brunner_munzel as brunner_munzel
    from prx.stats.twosample import mann_whitney as mann_whitney
    from prx.stats.twosample import welch as welch
    from prx.stats.twosample import welch_from_moments as welch_from_moments
    from prx.stats.unitsums import ArmTable as ArmTable
    from prx.stats.unitsums import UnitSum as UnitSum
    from prx.stats.unitvalues import blinded_skewness as blinded_skewness
    from prx.stats.validity import Exposures as Exposures
    from prx.stats.validity import RatioTest as RatioTest
    from prx.stats.validity import contamination_answer as contamination_answer
    from prx.stats.validity import exposure_answer as exposure_answer
    from prx.stats.validity import ratio_answer as ratio_answer
    from prx.stats.validity import sequential_srm as sequential_srm
    from prx.stats.validity import srm as srm
    from prx.stats.variety import enough_variety as enough_variety

_NAMES = {
    "anytime": "Tally anytime_p asymptotic_interval critical_z exact_difference exact_interval",
    "conclusions": "Conclusion Equivalent Evidence Harmful Inconclusive Invalid KeepControl Promote Rules "
    "conclude rank_test_needed",
    "correlation": "intraclass_correlation",
    "covariates": "Adjustment adjusted fit_adjustment",
    "dimensions": "FrozenDimensions choose_dimensions",
    "effects": "EffectSizes effect_sizes fieller_lift hedges_g",
    "estimator": "Composite Floor by_dimension composite",
    "groupsequential": "Boundaries Crossing boundaries crossing",
    "guardrails": "Guardrail Reading gate harm reading",
    "inference": "Inference conditional_power futility_z infer repeated_p repeated_upper_p",
    "losses": "LossBlock loss_answer loss_imbalance",
    "missing": "MissingBound missing_bound",
    "multiplicity": "DimensionTest Family bonferroni composite_first holm",
    "onlinefdr": "AutomaticExperiment promotion_level",
    "planning": "Chance Forecast Traffic equivalence_sample forecast sample_per_arm smallest_effect",
    "power": "fixed_information futility_bounds inflation power_of",
    "spending": "Spending",
    "stopping": "Design Look NoAlphaLeft PlanEdited State TimeWentBackwards design_by_power "
    "design_by_sample look start",
    "tails": "t_to_z",
    "twosample": "BrunnerMunzel MannWhitney Moments Welch brunner_munzel mann_whitney welch "
    "welch_from_moments",
    "unitsums": "ArmTable UnitSum",
    "unitvalues": "blinded_skewness",
    "variety": "enough_variety",
    "validity": "Exposures RatioTest contamination_answer exposure_answer ratio_answer sequential_srm srm",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOME)  # noqa: PLE0605 (built from one table, checked by a test)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'prx.stats' has no attribute {name!r}")
    value = getattr(import_module(f"prx.stats.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
