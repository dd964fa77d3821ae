"""Cells that run whole decisions, from the fold to the conclusion, against the forecast."""

from functools import cache

import numpy as np
from monte_carlo import Cell
from sequential_cells import DAYS, LOOKS, brownian, product_design

from prx.domain.answers import Interval, Passed
from prx.stats.conclusions import Conclusion, Evidence, Promote, Rules, conclude
from prx.stats.inference import stagewise_tail
from prx.stats.planning import chances
from prx.stats.stopping import look, start

Array = np.ndarray


@cache
def forecast_for(lift: float) -> float:
    design = product_design()
    (chance,) = chances(
        design, [float(d) / LOOKS for d in DAYS], full_information=design.max_information, lifts=[lift]
    )
    return chance.promote


def decide(rng: np.random.Generator, lift: float) -> Conclusion:
    """One experiment of 30 daily looks on a normal score process, decided as the product decides."""
    design = product_design()
    information = design.max_information * DAYS / LOOKS
    z = brownian(rng, 1, information, lift)[0]
    state = start(design)
    for day in range(LOOKS):
        state = look(design, state, float(information[day]), float(z[day]), hours=24.0 * (day + 1))
        here = state.looks[-1]
        se = float(information[day]) ** -0.5
        # Neither rule can match while the interval holds both 0 and delta; reading it would only cost time.
        if not state.ended and here.crossed == "none" and (here.z + here.upper_z) * se >= design.delta:
            continue
        estimate, half = here.z * se, here.upper_z * se
        # m >= delta exactly when at most half of the results with lift delta are as high as this one; that
        # is all the rule asks of m, and cheaper than solving for it.
        reaches = stagewise_tail(state.looks, design.delta / se) <= 0.5
        evidence = Evidence(
            age_hours=state.hours,
            interval=Interval(estimate - half, estimate + half),
            median_unbiased=design.delta if reaches else 0.0,
            missingness_bound=1.0,
            validity=(Passed("ok"),),
            guardrails=(Passed("ok"),),
            ending="max_information" if state.ended else None,
        )
        found = conclude(evidence, Rules(delta=design.delta))
        if found.ends:
            return found
    raise AssertionError("an experiment must end at its final look")


def promotes(lift: float) -> object:
    def simulate(rng: np.random.Generator, runs: int) -> Array:
        return np.array([isinstance(decide(rng, lift), Promote) for _ in range(runs)])

    return simulate


def cells() -> list[Cell]:
    made = []
    for i, lift in enumerate((0.02, 0.03, 0.04)):
        expected = forecast_for(lift)
        made.append(
            Cell(
                name=f"forecast-promote-{lift:g}",
                group="P(promote) of whole decisions against the forecast's exact integration (+- 0.03)",
                claim=f"true lift {lift:g}, forecast {expected:.4f}",
                seed=1900 + i,
                runs=2_000,
                batch=100,
                simulate=promotes(lift),
                low=expected - 0.03,
                high=expected + 0.03,
                fast_runs=30 if lift == 0.03 else 0,
            )
        )
    for i, (lift, limit) in enumerate(((0.0, 0.025), (-0.02, 0.001))):
        made.append(
            Cell(
                name=f"false-promotion-{lift:g}",
                group="False promotions of whole decisions",
                claim=f"promoted although the true lift is {lift:g}",
                seed=1910 + i,
                runs=4_000,
                batch=200,
                simulate=promotes(lift),
                low=0.0,
                high=limit,
                fast_runs=20 if lift == 0.0 else 0,
            )
        )
    return made
