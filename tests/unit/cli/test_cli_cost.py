"""`prx evolution cost`: dollars per role, the limit, and where the month is heading."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from cli_terminal import Terminal
from evolved_world import NOW

from prx.domain.answers import NotEnoughData
from prx.domain.ids import Ids
from prx.domain.scores import SessionScore
from prx.domain.spending import NOTICES, Spending, spending_id
from prx.ledger.memory import open_memory
from prx.ledger.port import Ledger
from prx.records.memory import open_memory as memory_records
from prx.settings import Budget, Settings
from prx.views.cost import Cost, cost
from prx.wiring.spend import ServingCost

MIDDLE = datetime(2026, 4, 16, tzinfo=UTC)


def spent(
    role: str, usd: float, *, month: str = "2026-04", agent: str = "default", failed: int = 0
) -> Spending:
    return Spending(
        spending_id=spending_id(agent, month, role),
        agent=agent,
        month=month,
        role=role,
        calls=10,
        failed=failed,
        input_tokens=1000,
        output_tokens=200,
        usd=usd,
    )


@pytest.fixture
def ledger() -> Ledger:
    import random

    found = open_memory(Ids(random.Random(1)))
    with found.transaction(now=MIDDLE, actor="engine") as tx:
        for row in (
            spent("judge", 3.0, failed=2),
            spent("proposer", 1.5),
            spent("judge", 9.0, agent="other"),
            spent("judge", 7.0, month="2026-03"),
            spent(NOTICES, 0.0),
        ):
            tx.put(row)
    return found


def read(ledger: Ledger, *, now: datetime = MIDDLE, serving: float | None = None, **budget: float) -> Cost:
    with ledger.view() as view:
        return cost(view, Settings(budget=Budget(**budget)), "default", now, serving)


def test_the_month_is_shown_per_role_and_other_agents_are_not_in_it(ledger: Ledger) -> None:
    found = read(ledger)
    assert [(one.role, one.usd, one.failed) for one in found.roles] == [
        ("judge", 3.0, 2),
        ("proposer", 1.5, 0),
    ]
    assert (found.usd, found.limit_usd, found.state) == (4.5, None, "no limit")
    assert found.months == (("2026-03", 7.0),)


def test_half_of_the_month_forecasts_twice_of_what_was_spent(ledger: Ledger) -> None:
    assert read(ledger).forecast_usd == pytest.approx(9.0)
    assert isinstance(read(ledger, now=datetime(2026, 4, 1, 23, tzinfo=UTC)).forecast_usd, NotEnoughData)


@pytest.mark.parametrize(
    ("monthly", "serving", "limit", "state"),
    [
        (10.0, None, 10.0, "within the limit"),
        (5.0, None, 5.0, "alert"),
        (10.0, 80.0, 4.0, "stopped"),
        (0.0, 80.0, 4.0, "stopped"),
        (5.0, 1000.0, 5.0, "alert"),
    ],
)
def test_the_smaller_of_the_two_limits_holds(
    ledger: Ledger, monthly: float, serving: float | None, limit: float, state: str
) -> None:
    found = read(ledger, serving=serving, monthly_usd=monthly)
    assert (found.limit_usd, found.state) == (limit, state)
    assert found.used == pytest.approx(4.5 / limit)


def test_the_command_says_spent_limit_and_forecast(terminal: Terminal) -> None:
    month = f"{NOW:%Y-%m}"
    with terminal.world.ledger.transaction(now=NOW, actor="engine") as tx:
        tx.put(spent("judge", 3.0, month=month, failed=1))
    text = terminal("evolution", "cost", "--forecast").out
    assert "3.00 USD" in text
    assert "5.00 USD (max_share_of_serving)" in text
    assert "1 failed call" in text
    told = json.loads(terminal("evolution", "cost", "--json").out)
    assert (told["usd"], told["limit_usd"], told["used"]) == (3.0, 5.0, 0.6)
    assert told["roles"][0]["role"] == "judge"


def test_serving_cost_is_that_of_30_days_and_read_once_an_hour() -> None:
    records = memory_records()
    now = [MIDDLE]
    serving = ServingCost(records, lambda: now[0])

    def add(key: str, days: float, usd: float | None) -> None:
        at = MIDDLE - timedelta(days=days)
        dimensions = {"task_completion": 1.0}
        records.put_scores(
            [
                SessionScore(
                    session_id=key,
                    agent="default",
                    env="production",
                    started_at=at,
                    closes_at=at,
                    closed=True,
                    dimensions=dimensions,
                    cost_usd=usd,
                )
            ]
        )

    assert serving.usd("default") is None
    add("old", 31, 5.0)
    add("new", 29, 2.0)
    add("unpriced", 1, None)
    assert serving.usd("default") is None
    now[0] += timedelta(minutes=61)
    assert serving.usd("default") == 2.0
