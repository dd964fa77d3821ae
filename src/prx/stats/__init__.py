"""Statistics of experiments: pure functions, numbers in, typed frozen results out.

Names below load their module, and with it numpy and scipy, on first use: `import prx.stats` alone is free.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from prx.stats.estimator import composite as composite
    from prx.stats.groupsequential import Boundaries as Boundaries
    from prx.stats.groupsequential import Crossing as Crossing
    from prx.stats.groupsequential import boundaries as boundaries
    from prx.stats.groupsequential import crossing as crossing
    from prx.stats.inference import Inference as Inference
    from prx.stats.inference import conditional_power as conditional_power
    from prx.stats.inference import futility_z as futility_z
    from prx.stats.inference import infer as infer
    from prx.stats.inference import repeated_p as repeated_p
    from prx.stats.inference import repeated_upper_p as repeated_upper_p
    from prx.stats.onlinefdr import AutomaticExperiment as AutomaticExperiment
    from prx.stats.onlinefdr import promotion_level as promotion_level
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
    from prx.stats.twosample import brunner_munzel as brunner_munzel
    from prx.stats.twosample import mann_whitney as mann_whitney
    from prx.stats.twosample import welch as welch
    from prx.stats.validity import srm as srm

_NAMES = {
    "conclusions": "Conclusion Equivalent Evidence Harmful Inconclusive Invalid KeepControl Promote Rules "
    "conclude rank_test_needed",
    "estimator": "composite",
    "groupsequential": "Boundaries Crossing boundaries crossing",
    "inference": "Inference conditional_power futility_z infer repeated_p repeated_upper_p",
    "onlinefdr": "AutomaticExperiment promotion_level",
    "power": "fixed_information futility_bounds inflation power_of",
    "spending": "Spending",
    "stopping": "Design Look NoAlphaLeft PlanEdited State TimeWentBackwards design_by_power design_by_sample "
    "look start",
    "tails": "t_to_z",
    "twosample": "brunner_munzel mann_whitney welch",
    "validity": "srm",
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
