"""The two worked examples of the specification, as raw sessions: what each arm's sessions scored, day by day.

No randomness: a day's sessions are normal quantiles moved and stretched to the exact mean and spread of the
example, so every day has the same ones. The spreads are those at which the published p-values come out.
"""

import math
from dataclasses import dataclass
from typing import Literal

from scipy.special import ndtri


@dataclass(frozen=True)
class WorkedExample:
    """`control[k]` and `treatment[k]`: fitness of the sessions that arrived since look k - 1, in order."""

    hours: tuple[float, ...]
    control: tuple[tuple[float, ...], ...]
    treatment: tuple[tuple[float, ...], ...]
    planned_sample: int | Literal["power"]
    p_value: float
    p_is: Literal["sequential", "naive"]
    conclusion: Literal["promote", "extended"]


def quantile_sessions(count: int, mean: float, spread: float) -> tuple[float, ...]:
    """`count` session scores with exactly this mean and (population) standard deviation, within 0 to 1."""
    raw = [float(ndtri((k + 0.5) / count)) for k in range(count)]
    scale = spread / math.sqrt(math.fsum(x * x for x in raw) / count)
    scores = tuple(mean + scale * x for x in raw)
    if min(scores) < 0.0 or max(scores) > 1.0:
        raise ValueError(f"a spread of {spread} around {mean} leaves the range of fitness")
    return scores


def l2_example(spread: float = 0.092727) -> WorkedExample:
    """Prompt (L2): 0.75 against 0.72, 100 sessions per arm planned, seven equal looks; sequential p 0.030."""
    return _example(
        control=0.72,
        treatment=0.75,
        sizes=_split(100, 7),
        spread=spread,
        planned=100,
        p_value=0.030,
        p_is="sequential",
        conclusion="promote",
    )


def l3_example(spread: float = 0.123566) -> WorkedExample:
    """Strategy (L3): 0.74 against 0.73, 200 per arm after 336 h, planned by power; naive p 0.42, extended."""
    return _example(
        control=0.73,
        treatment=0.74,
        sizes=_split(200, 14),
        spread=spread,
        planned="power",
        p_value=0.42,
        p_is="naive",
        conclusion="extended",
    )


def _split(total: int, looks: int) -> list[int]:
    ends = [round(total * (k + 1) / looks) for k in range(looks)]
    return [b - a for a, b in zip([0, *ends], ends, strict=False)]


def _example(
    *,
    control: float,
    treatment: float,
    sizes: list[int],
    spread: float,
    planned: int | Literal["power"],
    p_value: float,
    p_is: Literal["sequential", "naive"],
    conclusion: Literal["promote", "extended"],
) -> WorkedExample:
    return WorkedExample(
        hours=tuple(24.0 * (k + 1) for k in range(len(sizes))),
        control=tuple(quantile_sessions(n, control, spread) for n in sizes),
        treatment=tuple(quantile_sessions(n, treatment, spread) for n in sizes),
        planned_sample=planned,
        p_value=p_value,
        p_is=p_is,
        conclusion=conclusion,
    )
