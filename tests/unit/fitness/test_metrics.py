"""Own metrics: what feedback of a metric's name makes of one session, and of a window of sessions."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx.domain.answers import NotEnoughData
from prx.domain.records import Feedback, Interaction, SessionStart, Trace
from prx.domain.scores import OwnMetric, SessionScore
from prx.fitness.deployment import DeploymentFitness, deployment_fitness
from prx.fitness.metrics import metric_values
from prx.fitness.rules import FitnessRules
from prx.fitness.session import score_session
from prx.fitness.show import fitness_json, fitness_text

T0 = datetime(2026, 3, 2, 9, tzinfo=UTC)
BASKET = OwnMetric(name="basket")
ESCALATED = OwnMetric(name="escalated", type="rate", better="lower", role="guardrail")


def told(
    value: float | str, *, name: str = "basket", hours: float = 1.0, target: str = "s", kind: str = "session"
) -> Feedback:
    return Feedback(
        record_id=f"{name}/{target}/{hours}",
        at=T0 + timedelta(hours=hours),
        target_kind=kind,
        target=target,
        name=name,
        value=value,
    )


def trace(*feedback: Feedback) -> Trace:
    start = SessionStart(record_id="start", at=T0, session_id="s")
    calls = tuple(Interaction(record_id=f"call-{k}", at=T0, session_id="s", latency_ms=900.0) for k in (1, 2))
    return Trace(start=start, interactions=calls, feedback=feedback, ended_at=T0 + timedelta(minutes=5))


def test_a_mean_keeps_its_own_unit_whatever_the_range() -> None:
    assert metric_values(trace(told(41.5)), [BASKET], closed=True) == {"basket": 41.5}
    assert metric_values(trace(told(-3)), [BASKET], closed=True) == {"basket": -3.0}


def test_the_latest_value_of_a_target_holds_and_calls_are_averaged() -> None:
    latest = trace(told(10, hours=2), told(30, hours=1))
    assert metric_values(latest, [BASKET], closed=True) == {"basket": 10.0}
    calls = trace(
        told(2, target="call-1", kind="interaction"), told(8, target="call-2", kind="interaction", hours=2)
    )
    assert metric_values(calls, [BASKET], closed=True) == {"basket": 5.0}
    both = trace(told(2, target="call-1", kind="interaction"), told(9))
    assert metric_values(both, [BASKET], closed=True) == {"basket": 9.0}


def test_only_values_within_the_window_of_the_session_count() -> None:
    late = trace(told(5, hours=23.9), told(50, hours=24.1))
    assert metric_values(late, [BASKET], closed=True) == {"basket": 5.0}
    assert metric_values(trace(told(5, hours=25)), [BASKET], closed=True) == {}


@pytest.mark.parametrize(("value", "expected"), [("up", 1.0), ("no", 0.0), ("12.5", 12.5)])
def test_words_and_numbers_in_text_are_values(value: str, expected: float) -> None:
    assert metric_values(trace(told(value)), [BASKET], closed=True) == {"basket": expected}


@pytest.mark.parametrize("value", ["great", "", "nan", "inf", float("nan"), float("inf")])
def test_what_is_no_number_is_no_value(value: float | str) -> None:
    assert metric_values(trace(told(value)), [BASKET], closed=True) == {}


def test_a_rate_says_whether_any_value_was_above_zero() -> None:
    def rate(*values: Feedback, closed: bool = True) -> dict[str, float]:
        return metric_values(trace(*values), [ESCALATED], closed=closed)

    assert rate(told(3, name="escalated")) == {"escalated": 1.0}
    assert rate(told(0, name="escalated")) == {"escalated": 0.0}
    mixed = told(0, name="escalated"), told(1, name="escalated", target="call-1", kind="interaction")
    assert rate(*mixed) == {"escalated": 1.0}


def test_silence_counts_as_no_event_only_once_the_session_is_closed() -> None:
    assert metric_values(trace(), [ESCALATED], closed=False) == {}
    assert metric_values(trace(), [ESCALATED], closed=True) == {"escalated": 0.0}
    assert metric_values(trace(), [BASKET], closed=True) == {}


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_arrival_changes_nothing(values: list[float], random: object) -> None:
    feedback = [told(v, hours=1 + k / 10) for k, v in enumerate(values)]
    shuffled = list(feedback)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert metric_values(trace(*shuffled), [BASKET], closed=True) == {"basket": values[-1]}


@pytest.mark.parametrize(("role", "hours"), [("primary", 72.0), ("guardrail", 72.0), ("report", 24.0)])
def test_a_session_closes_after_the_window_of_a_metric_that_decides(role: str, hours: float) -> None:
    metric = OwnMetric(name="basket", window_hours=72.0, role=role)
    rules = FitnessRules(metrics=(metric,))
    scored = score_session(trace(), rules=rules, now=T0)
    expected = T0 + max(timedelta(hours=hours), timedelta(hours=24, minutes=5))
    assert scored.closes_at == expected
    assert score_session(trace(), rules=rules, now=expected).closed


def test_a_session_score_carries_the_metrics() -> None:
    rules = FitnessRules(metrics=(BASKET, ESCALATED))
    scored = score_session(trace(told(12)), rules=rules, now=T0 + timedelta(days=3))
    assert scored.metrics == {"basket": 12.0, "escalated": 0.0}


def window(rules: FitnessRules) -> DeploymentFitness:
    scores = [
        SessionScore(
            session_id=f"s{k}",
            agent="a",
            env="production",
            started_at=T0 + timedelta(minutes=k),
            closes_at=T0,
            closed=True,
            dimensions={"task_completion": 1.0},
            metrics={"escalated": float(k < 3)} | ({"basket": 10.0 * k} if k % 2 else {}),
        )
        for k in range(12)
    ]
    found = deployment_fitness(scores, rules=rules, start=T0, end=T0 + timedelta(days=1))
    assert not isinstance(found, NotEnoughData)
    return found


def test_the_window_shows_every_metric_beside_the_fitness_and_leaves_the_fitness_alone() -> None:
    unheard = OwnMetric(name="unheard", role="primary")
    found = window(FitnessRules(metrics=(BASKET, ESCALATED, unheard)))
    plain = window(FitnessRules())
    assert found.score == plain.score == 1.0
    told = fitness_json(found, NotEnoughData("-"))["metrics"]
    assert told["basket"]["value"] == pytest.approx((10 + 30 + 50 + 70 + 90 + 110) / 6)
    assert (told["basket"]["sessions"], told["basket"]["coverage"]) == (6, 0.5)
    assert told["escalated"]["value"] == 0.25
    assert told["unheard"] == {
        "value": None,
        "type": "mean",
        "better": "higher",
        "role": "primary",
        "sessions": 0,
        "coverage": 0.0,
    }
    assert "metrics" not in fitness_json(plain, NotEnoughData("-"))


def test_the_breakdown_names_value_sessions_direction_and_role() -> None:
    found = window(FitnessRules(metrics=(BASKET, ESCALATED)))
    shown = fitness_text(found, NotEnoughData("-"), breakdown=True)
    assert "basket               60.000      6       50%; mean, higher is better, report" in shown
    assert "escalated            0.250       12      100%; rate, lower is better, guardrail" in shown
    assert "basket" not in fitness_text(found, NotEnoughData("-"))


@pytest.mark.parametrize("text", ["the Visa card", "42", "3.7", "-1"])
def test_a_correction_told_as_text_makes_the_user_unsatisfied(text: str) -> None:
    scored = score_session(trace(told(text, name="correction")), rules=FitnessRules(), now=T0)
    assert scored.dimensions["user_satisfaction"] == 0.0
