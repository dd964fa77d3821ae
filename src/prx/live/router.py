"""Which model serves a request: score, default model of the intent, and a little logged exploration.

    score = alpha similarity + beta capability + gamma elo - delta cost - epsilon latency

Every term lies in 0..1 within the set of candidates. similarity and capability are divided by the best of
the set, cost and latency by the highest, so ratios stay what they are and one close second is not made a
zero; elo is the expected score against the set's mean, 1 / (1 + 10^((mean - elo) / 400)). What is not
known counts as the worst of the set: a model without facts never outranks one with facts, and a missing
price is never free.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prx.domain.records import ModelScore, Routing
from prx.domain.routing import ModelFacts
from prx.domain.versions import RouterWeights, Strategy
from prx.live.assign import position

FLOOR = 0.03
MAX_ARMS = 3
_SALT = "prx.route"
_SCALE = 1 << 64
_NEUTRAL = 0.5


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """What is to be routed. `candidates`: models that the app can call; none: only a default model of the
    strategy applies. `tokens`: estimated size, against context limits. `similar`: model to 0..1."""

    default: str
    intent: str | None = None
    candidates: tuple[ModelFacts, ...] = ()
    tokens: int | None = None
    similar: Mapping[str, float] = field(default_factory=dict)


def route(request: RouteRequest, strategy: Strategy, *, agent: str, session_id: str) -> Routing:
    """The model for a request, with the probability that it had; equal sessions get equal answers."""
    scores = score_models(request, strategy.router)
    arms = arms_of(scores, strategy, request.intent, request.default)
    preferred = next(iter(arms))
    chosen = _drawn(arms, position(f"{_SALT}/{agent}/{request.intent or ''}", session_id) / _SCALE)
    return Routing(
        chosen=chosen,
        propensity=arms[chosen],
        scores=scores,
        explored=chosen != preferred,
        arms=arms if len(arms) > 1 else {},
        intent=request.intent,
    )


def score_models(request: RouteRequest, weights: RouterWeights) -> tuple[ModelScore, ...]:
    """Every candidate whose context is large enough, the app's default first, else in the order given."""
    fitting = [
        facts
        for facts in request.candidates
        if request.tokens is None or facts.context_limit is None or request.tokens <= facts.context_limit
    ]
    fitting.sort(key=lambda facts: facts.model != request.default)
    if not fitting:
        return ()
    similarity = _of_best([request.similar.get(facts.model) for facts in fitting], unknown=0.0)
    capability = _of_best([_capability(facts, request.intent) for facts in fitting], unknown=_NEUTRAL)
    elo = _expected_scores([facts.elo for facts in fitting])
    cost = _of_highest([facts.price_usd for facts in fitting])
    latency = _of_highest([facts.latency_ms for facts in fitting])
    return tuple(
        ModelScore(
            model=facts.model,
            similarity=s,
            capability=c,
            elo=e,
            cost=p,
            latency=w,
            total=_total(weights, (s, c, e, p, w)),
        )
        for facts, s, c, e, p, w in zip(fitting, similarity, capability, elo, cost, latency, strict=True)
    )


def total_of(score: ModelScore, weights: RouterWeights) -> float:
    """The total that recorded terms have under other weights."""
    terms = (score.similarity, score.capability, score.elo, score.cost, score.latency)
    return _total(weights, terms)


def _total(weights: RouterWeights, terms: tuple[float, float, float, float, float]) -> float:
    similarity, capability, elo, cost, latency = terms
    return (
        weights.alpha * similarity
        + weights.beta * capability
        + weights.gamma * elo
        - weights.delta * cost
        - weights.epsilon * latency
    )


def arms_of(
    scores: Sequence[ModelScore], strategy: Strategy, intent: str | None, default: str
) -> dict[str, float]:
    """Probability of each model, the preferred one first; a pure function of recorded terms and strategy.

    Preferred: the strategy's default for the intent, else its `default` entry, else the highest total (the
    earliest of equals); a default that is not among the candidates does not count. The preferred model has
    1 - explore; the next best share `explore`, at most MAX_ARMS models in all and none below FLOOR. No
    exploration below FLOOR or without candidates.
    """
    named = strategy.default_models.get(intent or "") or strategy.default_models.get("default")
    ranked = sorted(scores, key=lambda score: -total_of(score, strategy.router))
    names = [score.model for score in ranked]
    if not names:
        return {named or default: 1.0}
    preferred = named if named in names else names[0]
    if not FLOOR <= strategy.explore <= 1.0:
        return {preferred: 1.0}
    room = min(MAX_ARMS - 1, int(strategy.explore / FLOOR + 1e-9))
    others = [name for name in names if name != preferred][:room]
    if not others:
        return {preferred: 1.0}
    share = strategy.explore / len(others)
    return {preferred: 1.0 - strategy.explore, **dict.fromkeys(others, share)}


def merged(models: Sequence[ModelFacts | str], known: Sequence[ModelFacts]) -> tuple[ModelFacts, ...]:
    """The app's candidates, each once; what the app left open is filled in from measured facts."""
    measured = {facts.model: facts for facts in known}
    found: dict[str, ModelFacts] = {}
    for given in models:
        told = given if isinstance(given, ModelFacts) else ModelFacts(model=str(given))
        found.setdefault(told.model, _filled(told, measured.get(told.model)))
    return tuple(found.values())


def _filled(told: ModelFacts, measured: ModelFacts | None) -> ModelFacts:
    if measured is None:
        return told
    unset = ModelFacts(model=told.model)
    return ModelFacts(
        model=told.model,
        capability={**measured.capability, **told.capability},
        elo=measured.elo if told.elo == unset.elo else told.elo,
        price_usd=measured.price_usd if told.price_usd is None else told.price_usd,
        latency_ms=measured.latency_ms if told.latency_ms is None else told.latency_ms,
        context_limit=measured.context_limit if told.context_limit is None else told.context_limit,
        sessions=measured.sessions,
    )


def _drawn(arms: Mapping[str, float], place: float) -> str:
    reached = 0.0
    for model, share in arms.items():
        reached += share
        if place < reached:
            return model
    return next(iter(arms))


def _capability(facts: ModelFacts, intent: str | None) -> float | None:
    return facts.capability.get(intent or "")


def _of_best(values: Sequence[float | None], *, unknown: float) -> list[float]:
    """Shares of the best, where more is better; all `unknown` when nothing is known."""
    known = [value for value in map(_sound, values) if value is not None]
    best, worst = max(known, default=0.0), min(known, default=0.0)
    if best <= 0:
        return [unknown] * len(values)
    return [(worst if (sound := _sound(value)) is None else sound) / best for value in values]


def _of_highest(values: Sequence[float | None]) -> list[float]:
    """Shares of the highest, where less is better; unknown counts as the highest."""
    known = [value for value in map(_sound, values) if value is not None]
    highest = max(known, default=0.0)
    if highest <= 0:
        return [0.0 if _sound(value) is not None or not known else 1.0 for value in values]
    return [1.0 if (sound := _sound(value)) is None else sound / highest for value in values]


def _expected_scores(ratings: Sequence[float]) -> list[float]:
    sound = [rating for rating in ratings if math.isfinite(rating)]
    mean = sum(sound) / len(sound) if sound else 0.0
    return [
        1.0 / (1.0 + 10.0 ** max(-10.0, min(10.0, (mean - rating) / 400.0))) if math.isfinite(rating) else 0.0
        for rating in ratings
    ]


def _sound(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) or value < 0 else value
