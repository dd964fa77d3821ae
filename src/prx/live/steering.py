"""What the strategy says in one session: its model, its limits, its tools, each by the session's own arm."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from prx.domain.experiments import TREATMENT
from prx.domain.layers import Layer
from prx.domain.records import Routing
from prx.domain.routing import ModelFacts
from prx.domain.serving import Serving
from prx.domain.versions import Strategy
from prx.live.arms import Arms, served_arm
from prx.live.automix import VERIFIER, confidence
from prx.live.router import RouteRequest, merged, route
from prx.live.runtime import Runtime

_Differ = Callable[[Strategy, Strategy], bool]


@dataclass(slots=True)
class Steering:
    """Reads the strategy of one session. A session enters an experiment at the first request on which its
    two strategies could act differently, so that the others do not dilute it."""

    runtime: Runtime
    arms: Arms
    agent: str
    session_id: str
    routing: Routing | None = None

    def route(
        self,
        intent: str | None,
        default: str,
        models: Sequence[ModelFacts | str],
        tokens: int | None,
        similar: Mapping[str, float],
    ) -> str:
        """The model for a request; the choice is kept for the call that uses it."""
        serving = self.runtime.served(self.agent)
        candidates = merged(models, serving.models)
        strategy = self._strategy(lambda a, b: _routes_differ(a, b, intent, scored=bool(candidates)))
        if serving.killed:
            strategy = msgspec.structs.replace(strategy, explore=0.0)
        request = RouteRequest(default, intent, candidates, tokens, similar)
        self.routing = route(request, strategy, agent=self.agent, session_id=self.session_id)
        return self.routing.chosen

    def escalate(self, question: str, answer: str, to: str) -> str | None:
        """`to` when the routed answer looks too unsure to be kept; None otherwise, and after one time."""
        routing = self.routing
        if routing is None or routing.escalated or routing.chosen == to:
            return None
        sure = confidence(question, answer)
        strategy = self._strategy(lambda a, b: a.automix_threshold != b.automix_threshold)
        if sure >= strategy.automix_threshold:
            return None
        self.routing = msgspec.structs.replace(
            routing, chosen=to, escalated=True, confidence=sure, verifier=VERIFIER
        )
        return to

    def timeout(self, name: str, default: float) -> float:
        """Seconds to wait for a model or tool."""
        strategy = self._strategy(lambda a, b: a.timeouts.get(name) != b.timeouts.get(name))
        return strategy.timeouts.get(name, default)

    def concurrency(self, channel: str, default: int) -> int:
        """Calls at a time on a channel."""
        strategy = self._strategy(lambda a, b: a.concurrency.get(channel) != b.concurrency.get(channel))
        return strategy.concurrency.get(channel, default)

    def tools(self, offered: Sequence[str]) -> list[str]:
        """Those of the offered tools that may be used, in the same order."""
        names = frozenset(offered)
        strategy = self._strategy(
            lambda a, b: bool(names & {*a.disabled_tools} ^ names & {*b.disabled_tools})
        )
        return [name for name in offered if name not in strategy.disabled_tools]

    def _strategy(self, differ: _Differ) -> Strategy:
        serving = self.runtime.served(self.agent)
        # An experiment that cannot be worked out is no reason to act on anything but the champion.
        work = partial(self._in_arms, serving, differ)
        return self.runtime.faults.guard("experiment", work, serving.strategy)

    def _in_arms(self, serving: Serving, differ: _Differ) -> Strategy:
        champion = serving.strategy
        kept = self.arms.previous(
            serving, Layer.STRATEGY, lambda h: h.strategy is not None and differ(champion, h.strategy)
        )
        if kept is not None and kept.strategy is not None:
            return kept.strategy
        running = self.arms.running(
            serving,
            Layer.STRATEGY,
            lambda e: e.strategy is not None and differ(champion, e.strategy),
            may_enter=True,
        )
        chosen = champion
        for experiment, assigned in running:
            served = served_arm(assigned, killed=serving.killed)
            self.arms.expose(experiment, assigned, served)
            if served == TREATMENT and experiment.strategy is not None:
                chosen = experiment.strategy
        return chosen


def _routes_differ(a: Strategy, b: Strategy, intent: str | None, *, scored: bool) -> bool:
    """Whether two strategies could serve a request of `intent` differently."""
    if _default_of(a, intent) != _default_of(b, intent):
        return True
    return scored and (a.router, a.explore, a.automix_threshold) != (b.router, b.explore, b.automix_threshold)


def _default_of(strategy: Strategy, intent: str | None) -> str | None:
    return strategy.default_models.get(intent or "") or strategy.default_models.get("default")
