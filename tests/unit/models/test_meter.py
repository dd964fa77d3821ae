"""The call meter: what is counted, when it stops, and how far concurrent calls can overshoot."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prx.domain.errors import InvalidInput, ModelUnavailable
from prx.domain.records import Message, Tokens
from prx.models.fakes import ScriptedChat
from prx.models.meter import (
    Budget,
    BudgetNotice,
    BudgetSpent,
    CallMeter,
    InMemoryUsage,
    MeteredModel,
    PriceUnknown,
    forecast_usd,
)
from prx.models.port import ChatReply, ChatRequest
from prx.models.pricing import FREE, Price, at_most

NOW = datetime(2026, 12, 11, tzinfo=UTC)
ASK = ChatRequest(model="m", messages=(Message(role="user", content="x"),), max_tokens=100)
DOLLAR_PER_CALL = Price(0.0, 10_000.0)  # 100 output tokens at this price: 1 USD


def replied(request: ChatRequest, output: int = 100) -> ChatReply:
    return ChatReply(text="ok", model="m", tokens=Tokens(input=7, output=output))


def meter_of(limit: float | None, notices: list[BudgetNotice] | None = None) -> CallMeter:
    heard = notices if notices is not None else []
    return CallMeter(InMemoryUsage(), limit_usd=lambda _: limit, notify=heard.append, clock=lambda: NOW)


def metered(meter: CallMeter, agent: str = "a", role: str = "judge") -> MeteredModel:
    return MeteredModel(ScriptedChat(replied), meter, agent=agent, role=role, price=DOLLAR_PER_CALL)


def test_all_roles_of_an_agent_draw_on_one_budget_and_other_agents_do_not() -> None:
    meter = meter_of(3.0)
    metered(meter, role="judge").complete(ASK)
    metered(meter, role="agent").complete(ASK)
    metered(meter, role="proposer").complete(ASK)
    with pytest.raises(BudgetSpent, match=r"agent a has spent 3\.00 of 3\.00 USD .* monthly_usd"):
        metered(meter, role="judge").complete(ASK)
    metered(meter, agent="b").complete(ASK)
    rows = {row.role: row for row in meter.usage("a")}
    assert {role: row.usd for role, row in rows.items()} == pytest.approx(
        {"agent": 1.0, "judge": 1.0, "proposer": 1.0}
    )
    assert (rows["judge"].calls, rows["judge"].input_tokens, rows["judge"].output_tokens) == (1, 7, 100)


def test_eighty_percent_alerts_once_and_the_limit_stops_once() -> None:
    notices: list[BudgetNotice] = []
    meter = meter_of(10.0, notices)
    model = metered(meter)
    for _ in range(7):
        model.complete(ASK)
    assert notices == []
    for _ in range(3):
        model.complete(ASK)
    for _ in range(3):
        with pytest.raises(BudgetSpent):
            model.complete(ASK)
    assert [(n.level, n.spent_usd) for n in notices] == [("alert", 8.0), ("stop", 10.0)]


def test_a_new_month_starts_at_zero() -> None:
    now = [datetime(2026, 12, 31, 23, 59, tzinfo=UTC)]
    meter = CallMeter(InMemoryUsage(), limit_usd=lambda _: 1.0, clock=lambda: now[0])
    model = metered(meter)
    model.complete(ASK)
    with pytest.raises(BudgetSpent):
        model.complete(ASK)
    now[0] += timedelta(minutes=2)
    assert model.complete(ASK).text == "ok"


@settings(max_examples=25, deadline=None)
@given(limit=st.floats(0.5, 6.0), threads=st.integers(2, 8), output=st.integers(1, 100))
def test_concurrent_calls_pass_the_limit_by_less_than_one_call(
    limit: float, threads: int, output: int
) -> None:
    meter = meter_of(limit)
    script = ScriptedChat(lambda request: replied(request, output))
    model = MeteredModel(script, meter, agent="a", role="judge", price=DOLLAR_PER_CALL)

    def until_spent(_: int) -> None:
        while True:
            try:
                model.complete(ASK)
            except BudgetSpent:
                return

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(until_spent, range(threads)))
    cost = output / 100
    assert limit <= meter.spent_usd("a") < limit + cost + 1e-9


def test_the_last_dollar_is_held_by_the_call_in_flight_not_given_out_twice() -> None:
    """Without holds, both threads would be admitted and the limit passed by a whole call."""
    meter = meter_of(1.0)
    first = meter.admit("a", "judge", most_usd=1.0)
    refused = threading.Event()

    def second() -> None:
        with pytest.raises(BudgetSpent):
            meter.admit("a", "judge", most_usd=1.0)
        refused.set()

    thread = threading.Thread(target=second)
    thread.start()
    assert not refused.is_set()
    meter.settle(first, replied(ASK), usd=1.0)
    thread.join(5)
    assert refused.is_set()


def test_a_failed_call_is_counted_and_gives_its_hold_back() -> None:
    meter = meter_of(1.0)
    broken = ScriptedChat([ModelUnavailable("down")])
    with pytest.raises(ModelUnavailable):
        MeteredModel(broken, meter, agent="a", role="judge", price=DOLLAR_PER_CALL).complete(ASK)
    (row,) = meter.usage("a")
    assert (row.calls, row.failed, row.usd) == (1, 1, 0.0)
    assert metered(meter).complete(ASK).text == "ok"


def test_a_reply_that_hides_its_tokens_is_charged_the_most_it_can_have_cost() -> None:
    meter = meter_of(5.0)
    silent = ScriptedChat(lambda _: ChatReply(text="ok", model="m"))
    MeteredModel(silent, meter, agent="a", role="judge", price=DOLLAR_PER_CALL).complete(ASK)
    assert meter.spent_usd("a") == pytest.approx(1.0)


def test_a_budget_without_a_price_refuses_the_call_instead_of_guessing() -> None:
    script = ScriptedChat(replied)
    with pytest.raises(PriceUnknown, match="set its price"):
        MeteredModel(script, meter_of(5.0), agent="a", role="judge").complete(ASK)
    assert script.requests == []
    assert MeteredModel(script, meter_of(None), agent="a", role="judge").complete(ASK).text == "ok"


def test_a_local_model_costs_nothing_even_when_it_does_not_count_tokens() -> None:
    meter = meter_of(0.0)
    silent = ScriptedChat(lambda _: ChatReply(text="ok", model="m"))
    MeteredModel(silent, meter, agent="a", role="judge", price=FREE).complete(ASK)
    assert meter.spent_usd("a") == 0.0


@given(text=st.text(max_size=200), output=st.integers(0, 5000))
def test_the_hold_is_never_below_the_real_cost(text: str, output: int) -> None:
    price = Price(3.0, 15.0)
    request = ChatRequest(model="m", messages=(Message(role="user", content=text),), max_tokens=5000)
    real = price.cost(Tokens(input=len(text.encode()) + 10, output=output))
    assert real is not None
    assert at_most(price, request) >= real


@pytest.mark.parametrize(
    ("monthly", "share", "serving", "limit"),
    [
        (50.0, 0.05, None, 50.0),
        (50.0, 0.05, 0.0, 50.0),
        (50.0, 0.05, 400.0, 20.0),
        (10.0, 0.05, 400.0, 10.0),
        (None, 0.05, 400.0, 20.0),
        (None, 0.05, None, None),
        (None, None, 400.0, None),
    ],
)
def test_the_smaller_cap_holds(
    monthly: float | None, share: float | None, serving: float | None, limit: float | None
) -> None:
    assert Budget(monthly, share).limit_usd(serving) == limit


def test_bad_budgets_and_prices_are_refused() -> None:
    with pytest.raises(InvalidInput, match="monthly_usd is -1"):
        Budget(-1.0)
    with pytest.raises(InvalidInput, match="below 0"):
        Price(-1.0, 2.0)


def test_the_forecast_extends_the_months_pace_and_says_nothing_on_the_first_day() -> None:
    meter = meter_of(None)
    ticket = meter.admit("a", "judge", most_usd=5.0)
    meter.settle(ticket, replied(ASK), usd=5.0)
    assert forecast_usd(meter.usage("a"), NOW) == pytest.approx(15.5)  # 5 USD in 10 of 31 days
    assert forecast_usd(meter.usage("a"), NOW.replace(day=1, hour=5)) is None
