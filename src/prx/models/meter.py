"""One meter over all model roles of an agent: what was spent this month, and the stop at the budget."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec

from prx.domain.errors import EvolutionError, InvalidInput
from prx.domain.times import utc_now
from prx.models.port import ChatModel, ChatReply, ChatRequest
from prx.models.pricing import Price, at_most


class BudgetSpent(EvolutionError):
    """The month's budget for evolution is used up; serving is untouched."""


class PriceUnknown(EvolutionError):
    """A budget is set but the model has no price, so the budget could not be kept."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Calls, tokens and US dollars of one agent and role in one month (`2026-12`, UTC).

    `failed`: calls without a usable answer; the provider may bill them, their dollars are not known.
    """

    agent: str
    month: str
    role: str
    calls: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        """Both together, under the names of the first."""
        return msgspec.structs.replace(
            self,
            calls=self.calls + other.calls,
            failed=self.failed + other.failed,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            usd=self.usd + other.usd,
        )


class UsageStore(Protocol):
    """Where usage is kept; every verb is atomic."""

    def add(self, usage: Usage) -> None:
        """Add to the row of (agent, month, role)."""
        ...

    def rows(self, agent: str, month: str) -> tuple[Usage, ...]:
        """The month's rows, one per role."""
        ...

    def first_notice(self, agent: str, month: str, level: str) -> bool:
        """True for the first caller with these three, False ever after."""
        ...


class InMemoryUsage:
    """UsageStore of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[tuple[str, str, str], Usage] = {}
        self._noticed: set[tuple[str, str, str]] = set()

    def add(self, usage: Usage) -> None:
        """Add to the row of (agent, month, role)."""
        key = (usage.agent, usage.month, usage.role)
        with self._lock:
            self._rows[key] = self._rows[key] + usage if key in self._rows else usage

    def rows(self, agent: str, month: str) -> tuple[Usage, ...]:
        """The month's rows, one per role."""
        with self._lock:
            return tuple(row for key, row in sorted(self._rows.items()) if key[:2] == (agent, month))

    def first_notice(self, agent: str, month: str, level: str) -> bool:
        """True for the first caller with these three, False ever after."""
        with self._lock:
            known = (agent, month, level) in self._noticed
            self._noticed.add((agent, month, level))
            return not known


@dataclass(frozen=True, slots=True)
class BudgetNotice:
    """The month's spending crossed a line; `level` is `alert` or `stop`. Sent once per agent and month."""

    agent: str
    month: str
    level: str
    spent_usd: float
    limit_usd: float


@dataclass(frozen=True, slots=True)
class Budget:
    """What evolution may cost. `monthly_usd` None: no limit. Shares in 0..1.

    `max_share_of_serving` caps evolution at this share of what serving cost in the month.
    """

    monthly_usd: float | None = None
    max_share_of_serving: float | None = 0.05
    alert_share: float = 0.80

    def __post_init__(self) -> None:
        if self.monthly_usd is not None and self.monthly_usd < 0:
            raise InvalidInput(f"monthly_usd is {self.monthly_usd}; give 0 or more, or leave it out")
        if not 0 < self.alert_share <= 1:
            raise InvalidInput(f"alert_share is {self.alert_share}; give a share above 0, at most 1")

    def limit_usd(self, serving_usd: float | None) -> float | None:
        """Dollars for the month: the smaller of the two caps that apply; None when none does.

        `serving_usd` None or 0 (not known, or served by local models): the share does not apply.
        """
        caps = [] if self.monthly_usd is None else [self.monthly_usd]
        if serving_usd and self.max_share_of_serving is not None:
            caps.append(serving_usd * self.max_share_of_serving)
        return min(caps, default=None)


@dataclass(frozen=True, slots=True)
class _Hold:
    agent: str
    month: str
    role: str
    usd: float


class CallMeter:
    """Admits calls while the budget lasts and keeps what they cost.

    Every call holds the most it can cost until it is settled. A call whose hold no longer fits waits for
    those in flight, and the last one is let in alone: spending passes the limit by less than one call per
    process, however many run at once.

    Args: `limit_usd`: the month's limit of an agent, None for none; asked at every call. `notify`: hears
        of 80 % and of the stop, once each per agent and month.
    """

    def __init__(
        self,
        store: UsageStore,
        *,
        limit_usd: Callable[[str], float | None],
        notify: Callable[[BudgetNotice], None] = lambda _: None,
        clock: Callable[[], datetime] = utc_now,
        alert_share: float = 0.80,
    ) -> None:
        self._store, self._limit_usd, self._notify, self._clock = store, limit_usd, notify, clock
        self._alert_share = alert_share
        self._changed = threading.Condition()
        self._holds: dict[int, _Hold] = {}
        self._next = 0

    def spent_usd(self, agent: str) -> float:
        """Dollars settled this month over all roles."""
        return sum(row.usd for row in self._store.rows(agent, month_of(self._clock())))

    def usage(self, agent: str) -> tuple[Usage, ...]:
        """This month's rows, one per role."""
        return self._store.rows(agent, month_of(self._clock()))

    def admit(self, agent: str, role: str, *, most_usd: float | None) -> int:
        """Ticket for one call that costs at most `most_usd`; blocks while calls in flight may use it up.

        Raises: BudgetSpent; PriceUnknown when a limit is set and `most_usd` is None.
        """
        month = month_of(self._clock())
        with self._changed:
            while True:
                limit = self._limit_usd(agent)
                if limit is not None and most_usd is None:
                    raise PriceUnknown(
                        f"the {role} model has no price, so the budget of {limit:g} USD cannot be kept; "
                        "set its price (0 for a local model), or raise monthly_usd and max_share_of_serving"
                    )
                spent = self.spent_usd(agent)
                held = [hold.usd for hold in self._holds.values() if hold.agent == agent]
                if limit is None or spent + sum(held) + (most_usd or 0.0) <= limit:
                    break
                if spent >= limit:
                    self._tell(agent, month, "stop", spent, limit)
                    raise BudgetSpent(
                        f"agent {agent} has spent {spent:.2f} of {limit:.2f} USD for evolution in {month}; "
                        "evolution rests until next month, serving goes on; raise "
                        "[self_evolution.budget] monthly_usd or max_share_of_serving to continue now"
                    )
                if not held:
                    break
                self._changed.wait()
            self._next += 1
            self._holds[self._next] = _Hold(agent, month, role, most_usd or 0.0)
            return self._next

    def settle(self, ticket: int, reply: ChatReply | None, *, usd: float | None = None) -> None:
        """End of the call: `reply` None when it failed; `usd` what it cost, else the reply's own figure.

        A reply whose cost nobody knows is charged what was held.
        """
        with self._changed:
            hold = self._holds.pop(ticket)
            try:
                self._store.add(_usage(hold, reply, usd))
                self._warn(hold)
            finally:
                self._changed.notify_all()

    def _warn(self, hold: _Hold) -> None:
        limit = self._limit_usd(hold.agent)
        if not limit:
            return
        spent = sum(row.usd for row in self._store.rows(hold.agent, hold.month))
        if spent >= self._alert_share * limit:
            self._tell(hold.agent, hold.month, "alert", spent, limit)
        if spent >= limit:
            self._tell(hold.agent, hold.month, "stop", spent, limit)

    def _tell(self, agent: str, month: str, level: str, spent: float, limit: float) -> None:
        if self._store.first_notice(agent, month, level):
            self._notify(BudgetNotice(agent, month, level, spent, limit))


class MeteredModel:
    """A ChatModel whose every call goes through the meter under one agent and role."""

    def __init__(
        self, model: ChatModel, meter: CallMeter, *, agent: str, role: str, price: Price | None = None
    ) -> None:
        self._model, self._meter, self._agent, self._role, self._price = model, meter, agent, role, price

    @property
    def name(self) -> str:
        """Name of the model behind the meter."""
        return self._model.name

    def complete(self, request: ChatRequest) -> ChatReply:
        """One completion. Raises: BudgetSpent, PriceUnknown, ModelUnavailable."""
        most = None if self._price is None else at_most(self._price, request)
        ticket = self._meter.admit(self._agent, self._role, most_usd=most)
        try:
            reply = self._model.complete(request)
        except BaseException:
            self._meter.settle(ticket, None)
            raise
        usd = reply.cost_usd
        if usd is None and self._price is not None:
            usd = self._price.cost(reply.tokens)
        self._meter.settle(ticket, reply, usd=usd)
        return reply


def month_of(at: datetime) -> str:
    """`2026-12`, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m")


def forecast_usd(rows: Iterable[Usage], now: datetime) -> float | None:
    """Dollars at the month's end if spending goes on at the month's pace; None in its first day."""
    now = now.astimezone(UTC)
    start = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    end = (start + timedelta(days=32)).replace(day=1)
    if now - start < timedelta(days=1):
        return None
    return sum(row.usd for row in rows) * ((end - start) / (now - start))


def _usage(hold: _Hold, reply: ChatReply | None, usd: float | None) -> Usage:
    if reply is None:
        return Usage(agent=hold.agent, month=hold.month, role=hold.role, calls=1, failed=1)
    known = usd if usd is not None else reply.cost_usd
    return Usage(
        agent=hold.agent,
        month=hold.month,
        role=hold.role,
        calls=1,
        input_tokens=reply.tokens.input or 0,
        output_tokens=reply.tokens.output or 0,
        usd=hold.usd if known is None else known,
    )
