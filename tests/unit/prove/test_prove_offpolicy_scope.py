import pytest

from prx.domain.changes import StrategyPatch
from prx.domain.parameters import NUMERIC, family_of, numeric, stepped
from prx.domain.versions import RouterWeights, Strategy
from prx.prove.applying import treated_part, value_at
from prx.prove.rules import GateRules
from prx.prove.scope import Reach, strategy_scope

STRATEGY = Strategy(
    router=RouterWeights(beta=0.5, delta=0.05),
    default_models={"faq": "large"},
    concurrency={"web": 8},
    timeouts={"search": 20.0},
    explore=0.1,
)


def code(path: str, new: float | str, *, by_person: bool = False) -> str | None:
    reach = Reach(
        GateRules(),
        known_models=frozenset({"large", "small"}),
        known_intents=frozenset({"faq", "refund"}),
        by_person=by_person,
    )
    patch = StrategyPatch(path=path, old=value_at(STRATEGY, path), new=new)
    failed = strategy_scope(STRATEGY, patch, reach)
    return None if failed is None else failed.code


@pytest.mark.parametrize(
    ("path", "new"),
    [
        ("router.beta", 0.55),
        ("automix_threshold", 0.65),
        ("explore", 0.05),
        ("concurrency.web", 9),
        ("timeouts.search", 17.0),
        ("default_models.faq", "small"),
        ("default_models.refund", "small"),
        ("disabled_tools.wipe", "off"),
    ],
)
def test_one_bounded_step_of_every_family_is_let_through_and_applies(path: str, new: float | str) -> None:
    assert code(path, new) is None
    assert family_of(path) is not None
    old = value_at(STRATEGY, path)
    treated = treated_part(STRATEGY, StrategyPatch(path=path, old=old, new=new))
    assert isinstance(treated, Strategy)
    assert value_at(treated, path) == new


@pytest.mark.parametrize(
    ("path", "new", "why"),
    [
        ("explore", 0.15, "person_raises"),
        ("explore", 0.3, "out_of_range"),
        ("router.delta", 0.0, "out_of_range"),
        ("automix_threshold", 0.99, "out_of_range"),
        ("concurrency.web", 8.5, "wrong_type"),
        ("concurrency.mail", 4, "unknown_key"),
        ("timeouts.search", 3.0, "step_too_large"),
        ("timeouts.other", 3.0, "unknown_key"),
        ("default_models.faq", "unheard-of", "unknown_model"),
        ("default_models.unheard-of", "small", "unknown_key"),
        ("disabled_tools.wipe", "on", "wider_tools"),
    ],
)
def test_what_lies_beyond_range_step_or_right_is_refused(path: str, new: float | str, why: str) -> None:
    assert code(path, new) == why


def test_a_person_may_raise_exploration_but_not_beyond_its_range() -> None:
    assert code("explore", 0.2, by_person=True) is None
    assert code("explore", 0.25, by_person=True) == "out_of_range"


@pytest.mark.parametrize(
    "path", ["l3.require_approval", "judge.min_score", "budget.monthly_usd", "breaker.n"]
)
def test_what_restrains_the_engine_is_no_parameter(path: str) -> None:
    reach = Reach(GateRules())
    failed = strategy_scope(STRATEGY, StrategyPatch(path=path, old=0.0, new=1.0), reach)
    assert failed is not None
    assert family_of(path) is None


@pytest.mark.parametrize("path", [*NUMERIC, "timeouts.search", "concurrency.web"])
def test_the_engines_steps_stay_in_range_and_within_what_the_gate_lets_through(path: str) -> None:
    rule = numeric(path)
    assert rule is not None
    for share in (0.0, 0.1, 0.5, 0.9, 1.0):
        present = rule.low + share * (rule.high - rule.low)
        present = float(round(present)) if rule.whole else present
        for up in (True, False):
            new = stepped(path, present, up=up)
            if new is None:
                assert present in (rule.low, rule.high)
                continue
            assert rule.low <= new <= rule.high
            assert (new > present) is up
            limit = present * (rule.step - 1) if rule.relative else rule.step
            assert abs(new - present) <= max(limit, 1.0 if rule.whole else 0.0) + 1e-6
