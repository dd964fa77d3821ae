"""The true expected fitness of any version, computed and not sampled. Only reports may ask for it.

Every honest customer, message and channel is enumerated with its exact weight, every model that the
strategy may choose with its exact probability; what is random about people enters as its expectation.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from prx.demo.world.bank import FOLLOW_UPS, LABELS, PROMPT, PROMPT_NAME, messages, topic_of
from prx.demo.world.customers import Customers
from prx.demo.world.desk import default_model, request_of
from prx.demo.world.flavours import World
from prx.demo.world.judges import RIGHT_SCORE, WRONG_SCORE
from prx.demo.world.reader import SimulatedModels
from prx.domain.versions import Manifest, PromptSet, Strategy, part_hash
from prx.fitness.curves import log_linear
from prx.fitness.rules import FitnessRules
from prx.ledger.port import View
from prx.live.prompts import render
from prx.live.router import RouteRequest, arms_of, score_models


class Truth:
    """True fitness in one world. Equal parts have equal fitness, on every machine.

    Args: `rules`: the operator's weights and curves, with fixed token targets.
    """

    def __init__(self, world: World, seed: int, rules: FitnessRules) -> None:
        self._world, self._rules = world, rules
        self._customers = Customers(world, seed)
        self._models = SimulatedModels(world.models, reads_prompt=world.reads_prompt)
        self._weights: dict[bool, dict[_Cell, float]] = {}
        self._known: dict[tuple[str, str, bool], float] = {}

    def fitness(self, prompt: str, strategy: Strategy | None = None, *, day: float = 0.0) -> float:
        """True fitness in 0..1 of a prompt text under a strategy, with what customers ask on `day`.

        Sum over dimensions of weight x expectation, over the dimensions that this world has: relevance by a
        judge who knows, completion, time to the first token, tokens of successes, thumbs. Memory precision is
        not in it: customers who ask again are, with the memory of their last case at hand.
        """
        used = strategy or Strategy()
        drifted = self._customers.drifted(day)
        key = (prompt, part_hash(used), drifted)
        if key not in self._known:
            self._known[key] = self._composite(self.dimensions(prompt, used, day=day))
        return self._known[key]

    def dimensions(self, prompt: str, strategy: Strategy, *, day: float = 0.0) -> dict[str, float]:
        """Expected value of every dimension, 0..1."""
        rules = self._rules
        target, ceiling = rules.target_tokens, rules.ceiling_tokens
        assert target is not None
        assert ceiling is not None
        system = render(prompt, {})
        sums: dict[str, float] = defaultdict(float)
        for cell, weight in self._cells(day).items():
            for model, chance in _chances(strategy, topic_of(cell.text), cell.default).items():
                reply = self._models.complete(request_of(model, system, cell.text, cell.known))
                share = weight * chance
                right = cell.certain if reply.text == cell.label else 0.0
                tokens = float(reply.tokens.total or 0)
                wait = log_linear(reply.ttft_ms or 0.0, target=rules.target_ms, ceiling=rules.ceiling_ms)
                happy = self._world.people.happy
                sums["response_relevance"] += share * (right * RIGHT_SCORE + (1 - right) * WRONG_SCORE)
                sums["task_completion"] += share * right
                sums["response_latency"] += share * wait
                sums["token_efficiency"] += share * right * log_linear(tokens, target=target, ceiling=ceiling)
                sums["user_satisfaction"] += share * (right * happy[0] + (1 - right) * happy[1])
        return dict(sums)

    def of(self, view: View, manifest: Manifest, *, day: float = 0.0) -> float:
        """True fitness of what a manifest serves."""
        prompts, strategy = view.part(manifest.prompt), view.part(manifest.strategy)
        assert isinstance(prompts, PromptSet)
        assert isinstance(strategy, Strategy)
        return self.fitness(prompts.texts.get(PROMPT_NAME, PROMPT), strategy, day=day)

    def _composite(self, dimensions: Mapping[str, float]) -> float:
        weights = {d: w for d, w in self._rules.weights.items() if d in dimensions}
        return sum(weight * dimensions[d] for d, weight in weights.items()) / sum(weights.values())

    def _cells(self, day: float) -> dict["_Cell", float]:
        drifted = self._customers.drifted(day)
        if drifted not in self._weights:
            self._weights[drifted] = self._enumerated(drifted=drifted)
        return self._weights[drifted]

    def _enumerated(self, *, drifted: bool) -> dict["_Cell", float]:
        everyone = sum(user.weight for user in self._customers.users)
        known: dict[frozenset[str], list[float]] = {}
        by_model: dict[str, list[float]] = {}
        for user in self._customers.users:
            if user.habits not in known:
                shares = self._customers.share_of(user, drifted=drifted)
                whole = sum(shares)
                known[user.habits] = [share / whole for share in shares]
            sums = by_model.setdefault(default_model(self._world, user.channel), [0.0] * len(messages()))
            weight = user.weight / everyone
            for place, share in enumerate(known[user.habits]):
                sums[place] += weight * share
        cells: dict[_Cell, float] = defaultdict(float)
        remembers = self._world.remembers
        asks_again = remembers.follow_ups if remembers else 0.0
        for default, sums in by_model.items():
            of_labels: dict[str, float] = defaultdict(float)
            for (text, label), weight in zip(messages(), sums, strict=True):
                cells[_Cell(text, label, default)] += weight * (1 - asks_again)
                of_labels[label] += weight
            if remembers is None:
                continue
            same = 1 - remembers.stale * (1 - 1 / len(LABELS))
            for label, weight in of_labels.items():
                for asked in FOLLOW_UPS:
                    again = _Cell(asked, label, default, (f"last case {label}",), same)
                    cells[again] += weight * asks_again / len(FOLLOW_UPS)
        return dict(cells)


@dataclass(frozen=True, slots=True)
class _Cell:
    """One kind of visit; `certain`: chance that `label` is right, below 1 where memories may be stale."""

    text: str
    label: str
    default: str
    known: tuple[str, ...] = ()
    certain: float = 1.0


def _chances(strategy: Strategy, topic: str, default: str) -> dict[str, float]:
    request = RouteRequest(default, topic)
    return arms_of(score_models(request, strategy.router), strategy, topic, default)
