import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx.domain.records import Interaction, Routing
from prx.domain.routing import ModelFacts
from prx.domain.serving import Serving
from prx.domain.versions import RouterWeights, Strategy
from prx.live.evolution import Evolution
from prx.live.router import FLOOR, MAX_ARMS, RouteRequest, arms_of, merged, route, score_models

SMALL = ModelFacts(model="small", capability={"faq": 0.6}, price_usd=0.001, latency_ms=200, elo=900)
LARGE = ModelFacts(model="large", capability={"faq": 0.9}, price_usd=0.01, latency_ms=800, elo=1100)
UNKNOWN = ModelFacts(model="new")
ALL = (SMALL, LARGE, UNKNOWN)
EVEN = RouterWeights(alpha=0.0, beta=0.5, gamma=0.3, delta=0.1, epsilon=0.1)


def routed(strategy: Strategy, session: str = "s", request: RouteRequest | None = None) -> Routing:
    asked = request or RouteRequest("small", "faq", ALL)
    return route(asked, strategy, agent="a", session_id=session)


def test_the_terms_of_a_score_are_those_computed_by_hand() -> None:
    small, large = score_models(RouteRequest("small", "faq", (SMALL, LARGE)), EVEN)
    assert (small.model, large.model) == ("small", "large")
    assert small.capability == pytest.approx(0.6 / 0.9)
    assert large.capability == 1.0
    assert small.cost == pytest.approx(0.1)
    assert large.cost == 1.0
    assert (small.latency, large.latency) == (0.25, 1.0)
    assert small.elo == pytest.approx(1 / (1 + 10 ** (100 / 400)))
    assert small.elo + large.elo == pytest.approx(1.0)
    by_hand = 0.5 * (0.6 / 0.9) + 0.3 * small.elo - 0.1 * 0.1 - 0.1 * 0.25
    assert small.total == pytest.approx(by_hand)


def test_the_default_of_the_intent_comes_before_the_score_and_the_score_before_the_app() -> None:
    assert routed(Strategy(router=EVEN)).chosen == "large"
    assert routed(Strategy(router=EVEN, default_models={"faq": "small"})).chosen == "small"
    assert routed(Strategy(router=EVEN, default_models={"default": "small"})).chosen == "small"
    assert routed(Strategy(router=EVEN, default_models={"faq": "gone"})).chosen == "large"


def test_without_candidates_only_a_default_model_of_the_strategy_applies() -> None:
    bare = RouteRequest("app", "faq")
    assert routed(Strategy(explore=0.2), request=bare) == Routing(chosen="app", propensity=1.0, intent="faq")
    assert routed(Strategy(default_models={"faq": "m"}), request=bare).chosen == "m"


def test_a_model_whose_context_is_too_small_is_no_candidate_even_as_the_default() -> None:
    short = ModelFacts(model="small", capability={"faq": 1.0}, context_limit=1000)
    strategy = Strategy(default_models={"faq": "small"}, explore=0.2)
    long = RouteRequest("small", "faq", (short, LARGE), tokens=1001)
    assert routed(strategy, request=long).chosen == "large"
    assert "small" not in routed(strategy, request=long).arms
    exact = RouteRequest("small", "faq", (short, LARGE), tokens=1000)
    assert "small" in routed(strategy, request=exact).arms
    none_left = RouteRequest("small", "faq", (short,), tokens=2000)
    assert routed(strategy, request=none_left).chosen == "small"


def test_a_missing_price_is_never_free_and_an_unknown_model_never_outranks_a_known_one() -> None:
    scores = {s.model: s for s in score_models(RouteRequest("large", "faq", ALL), EVEN)}
    assert scores["new"].cost == 1.0
    assert scores["new"].latency == 1.0
    assert scores["new"].capability == scores["small"].capability


def test_models_of_which_nothing_is_known_leave_the_choice_to_the_app() -> None:
    request = RouteRequest("b", "faq", (ModelFacts(model="a"), ModelFacts(model="b")))
    assert routed(Strategy(), request=request).chosen == "b"


def test_facts_that_are_no_numbers_count_as_unknown() -> None:
    broken = ModelFacts(model="odd", capability={"faq": math.nan}, price_usd=math.inf, latency_ms=-1.0)
    scores = score_models(RouteRequest("small", "faq", (SMALL, broken)), EVEN)
    assert all(math.isfinite(score.total) for score in scores)
    assert scores[1].cost == 1.0


@given(
    explore=st.floats(0, 0.2),
    prices=st.lists(st.floats(0, 10), min_size=1, max_size=6),
    weights=st.lists(st.floats(0, 1), min_size=5, max_size=5),
)
def test_arms_are_probabilities_of_at_most_three_models_each_at_its_floor(
    explore: float, prices: list[float], weights: list[float]
) -> None:
    names = ("alpha", "beta", "gamma", "delta", "epsilon")
    strategy = Strategy(router=RouterWeights(**dict(zip(names, weights, strict=True))), explore=explore)
    facts = tuple(ModelFacts(model=f"m{i}", price_usd=price) for i, price in enumerate(prices))
    scores = score_models(RouteRequest("m0", None, facts), strategy.router)
    assert all(0 <= t <= 1 for s in scores for t in (s.similarity, s.capability, s.elo, s.cost, s.latency))
    arms = arms_of(scores, strategy, None, "m0")
    assert sum(arms.values()) == pytest.approx(1.0)
    assert 1 <= len(arms) <= MAX_ARMS
    assert min(arms.values()) >= FLOOR - 1e-12


def test_nothing_is_explored_until_it_is_asked_for() -> None:
    found = {routed(Strategy(router=EVEN), f"s{i}").chosen for i in range(200)}
    assert found == {"large"}


def test_the_recorded_propensity_is_the_share_of_sessions_that_get_the_model() -> None:
    strategy = Strategy(router=EVEN, explore=0.2)
    every = [routed(strategy, f"s{i}") for i in range(20_000)]
    counted = Counter(one.chosen for one in every)
    assert every[0].arms == {"large": 0.8, "small": 0.1, "new": 0.1}
    for model, share in every[0].arms.items():
        error = math.sqrt(share * (1 - share) / len(every))
        assert abs(counted[model] / len(every) - share) < 4 * error
        assert {one.propensity for one in every if one.chosen == model} == {share}
    assert all(one.explored == (one.chosen != "large") for one in every)


def test_a_session_gets_the_same_model_for_an_intent_again_and_draws_anew_for_another() -> None:
    strategy = Strategy(router=EVEN, explore=0.2)
    other = RouteRequest("small", "other", ALL)
    pairs = [(routed(strategy, f"s{i}"), routed(strategy, f"s{i}", other)) for i in range(2000)]
    assert all(routed(strategy, f"s{i}") == pair[0] for i, pair in enumerate(pairs))
    both = sum(a.explored and b.explored for a, b in pairs)
    assert 40 < both < 125


def test_what_the_app_knows_of_a_model_comes_before_what_was_measured() -> None:
    measured = (ModelFacts(model="m", price_usd=1.0, latency_ms=5.0, capability={"a": 0.5}, sessions=9),)
    told = ModelFacts(model="m", price_usd=2.0, capability={"b": 0.7})
    (facts,) = merged([told, "m"], measured)
    assert (facts.price_usd, facts.latency_ms) == (2.0, 5.0)
    assert facts.capability == {"a": 0.5, "b": 0.7}
    assert merged(["x"], measured) == (ModelFacts(model="x"),)


def recorded(serving: Serving) -> tuple[Evolution, list[Interaction]]:
    records: list[Interaction] = []

    def take(record: object) -> None:
        if isinstance(record, Interaction):
            records.append(record)

    return Evolution(lambda _: serving, take), records


def test_a_routed_call_is_recorded_with_scores_propensity_and_the_routed_intent() -> None:
    serving = Serving(strategy=Strategy(router=EVEN), models=(SMALL, LARGE))
    evolution, records = recorded(serving)
    with evolution.session("r") as session:
        model = session.route("faq", default="small", models=["small", "large"])
        with session.call(model=model, messages="hello") as call:
            call.reply(text="hi")
        with session.call(model="another", messages="hello") as call:
            call.reply(text="hi")
    first, second = records
    assert model == "large"
    assert first.routing is not None
    assert first.routing.propensity == 1.0
    assert [score.model for score in first.routing.scores] == ["small", "large"]
    assert first.intent == "faq"
    assert second.routing is None


def test_the_kill_switch_ends_exploration() -> None:
    strategy = Strategy(router=EVEN, explore=0.2)
    for killed, expected in ((False, {"small", "large"}), (True, {"large"})):
        evolution, _ = recorded(Serving(strategy=strategy, models=(SMALL, LARGE), killed=killed))
        sessions = [evolution.session(session_id=f"s{i}") for i in range(60)]
        found = {session.route("faq", default="small", models=["small", "large"]) for session in sessions}
        assert found == expected


def test_limits_and_tools_of_the_strategy_reach_the_app() -> None:
    strategy = Strategy(timeouts={"large": 12.0}, concurrency={"web": 3}, disabled_tools=("wipe",))
    evolution, _ = recorded(Serving(strategy=strategy))
    session = evolution.session("r", channel="web")
    assert session.timeout("large", default=30.0) == 12.0
    assert session.timeout("small", default=30.0) == 30.0
    assert session.concurrency(default=8) == 3
    assert evolution.session("r").concurrency(default=8) == 8
    assert session.tools(["find", "wipe"]) == ["find"]


def test_a_seeded_world_of_odd_facts_never_raises_into_the_app() -> None:
    rng = random.Random(5)
    odd = [math.nan, math.inf, -1.0, 0.0, 1e308, None]
    for i in range(300):
        facts = [
            ModelFacts(model=f"m{k}", price_usd=rng.choice(odd), latency_ms=rng.choice(odd)) for k in range(4)
        ]
        evolution, _ = recorded(Serving(strategy=Strategy(explore=rng.choice([0.0, 0.2, math.nan]))))
        assert evolution.session(f"s{i}").route("x", default="d", models=facts) in {f.model for f in facts}
        assert not evolution.faults
