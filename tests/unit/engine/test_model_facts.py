import math
from datetime import UTC, datetime, timedelta

import pytest

from prx.domain.records import Interaction, SessionStart, Terminal, Trace
from prx.domain.scores import SessionScore
from prx.engine.modelfacts import MIN_SESSIONS, measured

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def sessions(model: str, intent: str, good: int, total: int) -> list[tuple[Trace, SessionScore]]:
    found = []
    for i in range(total):
        key = f"{model}/{intent}/{i}"
        call = Interaction(
            record_id=key, at=NOW, session_id=key, model=model, latency_ms=100.0 + i, cost_usd=0.01
        )
        trace = Trace(start=SessionStart(record_id=f"{key}/s", at=NOW, session_id=key), interactions=(call,))
        score = SessionScore(
            session_id=key,
            agent="default",
            env="production",
            started_at=NOW,
            closes_at=NOW + timedelta(hours=1),
            closed=True,
            dimensions={},
            intent=intent,
            model=model,
            success=i < good,
        )
        found.append((trace, score))
    return found


def test_rates_prices_and_times_are_those_counted_and_thin_cells_are_left_out() -> None:
    rows = [*sessions("a", "faq", 45, 60), *sessions("a", "rare", 1, MIN_SESSIONS - 1)]
    (one,) = measured([t for t, _ in rows], {s.session_id: s for _, s in rows})
    assert one.capability == {"faq": 0.75}
    assert one.price_usd == 0.01
    assert one.latency_ms == pytest.approx(100 + 22, abs=8)
    assert one.sessions == 60 + MIN_SESSIONS - 1


def test_a_model_given_only_easy_requests_is_not_rated_up_for_it() -> None:
    # a: better on both intents, but mostly given the hard one; overall its rate is the lower one
    rows = [
        *sessions("a", "easy", 48, 50),
        *sessions("a", "hard", 200, 400),
        *sessions("b", "easy", 340, 400),
        *sessions("b", "hard", 10, 50),
    ]
    rated = {one.model: one for one in measured([t for t, _ in rows], {s.session_id: s for _, s in rows})}
    assert 248 / 450 < 350 / 450
    assert rated["a"].elo > 1000 > rated["b"].elo


def test_four_hundred_points_are_odds_of_ten_to_one() -> None:
    rows = [*sessions("a", "faq", 909, 1000), *sessions("b", "faq", 500, 1000)]
    rated = {one.model: one for one in measured([t for t, _ in rows], {s.session_id: s for _, s in rows})}
    odds = (909.5 / 91.5) / (500.5 / 500.5)
    assert rated["a"].elo - rated["b"].elo == pytest.approx(400 * math.log10(odds), abs=0.01)


def test_sessions_of_unknown_success_and_calls_that_failed_say_nothing() -> None:
    trace, score = sessions("a", "faq", 1, 1)[0]
    failed = Interaction(
        record_id="x", at=NOW, session_id="x", model="a", latency_ms=9e9, terminal=Terminal.UPSTREAM_ERROR
    )
    unknown = SessionScore(
        **{name: getattr(score, name) for name in score.__struct_fields__ if name != "success"}
    )
    (one,) = measured(
        [Trace(start=trace.start, interactions=(failed, *trace.interactions))], {score.session_id: unknown}
    )
    assert one.latency_ms == 100.0
    assert one.capability == {}
    assert one.elo == 1000.0
