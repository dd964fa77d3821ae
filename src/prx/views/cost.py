"""What the engine's own model calls cost this month, what they may cost, and where that is heading."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from prx.domain.answers import NotEnoughData
from prx.domain.spending import NOTICES, Spending
from prx.ledger.port import View
from prx.settings import Settings

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class RoleCost:
    """One model role in the month. `failed`: calls without a usable answer, whose price is not known."""

    role: str
    calls: int
    failed: int
    input_tokens: int
    output_tokens: int
    usd: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Dollars of one agent in one month (UTC).

    `limit_usd` None: no limit is set; `used` share of it, 0..1 and above. `forecast_usd`: at the month's
    end if it goes on at this pace. `serving_usd`: what the agent's own traffic cost in the last 30 days,
    `share_limit_usd` the part of it that evolution may cost.
    """

    agent: str
    month: str
    roles: tuple[RoleCost, ...]
    usd: float
    limit_usd: float | None
    monthly_usd: float | None
    share_limit_usd: float | None
    serving_usd: float | None
    used: float | None
    state: str
    forecast_usd: float | NotEnoughData
    months: tuple[tuple[str, float], ...]


def cost(view: View, settings: Settings, agent: str, now: datetime, serving_usd: float | None) -> Cost:
    """The month that holds `now`, and the dollars of every month before."""
    month = f"{now.astimezone(UTC):%Y-%m}"
    rows = [row for row in view.find(Spending, agent=agent) if row.role != NOTICES]
    mine = sorted((row for row in rows if row.month == month), key=lambda row: row.role)
    spent = sum(row.usd for row in mine)
    monthly = settings.budget.monthly_usd or None
    share = serving_usd * settings.budget.max_share_of_serving if serving_usd else None
    caps = [cap for cap in (monthly, share) if cap is not None]
    limit = min(caps, default=None)
    used = spent / limit if limit else None
    return Cost(
        agent=agent,
        month=month,
        roles=tuple(
            RoleCost(row.role, row.calls, row.failed, row.input_tokens, row.output_tokens, row.usd)
            for row in mine
        ),
        usd=spent,
        limit_usd=limit,
        monthly_usd=monthly,
        share_limit_usd=share,
        serving_usd=serving_usd,
        used=used,
        state=_state(used),
        forecast_usd=_forecast(spent, now.astimezone(UTC)),
        months=_months(rows, month),
    )


def _state(used: float | None) -> str:
    if used is None:
        return "no limit"
    return "stopped" if used >= 1 else "alert" if used >= 0.8 else "within the limit"


def _forecast(spent: float, now: datetime) -> float | NotEnoughData:
    start = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    end = (start + timedelta(days=32)).replace(day=1)
    if now - start < _DAY:
        return NotEnoughData("the month is less than a day old")
    return spent * ((end - start) / (now - start))


def _months(rows: list[Spending], current: str) -> tuple[tuple[str, float], ...]:
    earlier = sorted({row.month for row in rows if row.month < current})
    return tuple((month, sum(row.usd for row in rows if row.month == month)) for month in earlier)
