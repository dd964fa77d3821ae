"""Hourly look at the agent as a whole: is it good enough, and does traffic still come?"""

from datetime import datetime, timedelta
from itertools import islice

from prx.domain.answers import NotEnoughData
from prx.domain.events import EventName
from prx.engine.alerts import raise_alert, resolve_alert
from prx.engine.intake import rules_for
from prx.engine.turn import Turn
from prx.fitness.deployment import current_fitness, fitness_alert

FITNESS, NO_DATA = "fitness", "no_data"
DAY, WEEK = timedelta(days=1), timedelta(days=7)
EXPECTED_FROM = 10
SATURDAY, SUNDAY = 5, 6


def check_alerts(turn: Turn) -> None:
    """Tell once when fitness falls below the minimum or traffic stays away, and once when that is over."""
    _fitness(turn)
    _traffic(turn)


def _fitness(turn: Turn) -> None:
    rules = rules_for(turn.context, turn.agent)
    scored = current_fitness(turn.scores(turn.now - rules.window), rules=rules, now=turn.now)
    if isinstance(scored, NotEnoughData):
        return
    why = fitness_alert(scored, rules)
    numbers = {"fitness": scored.score, "minimum": rules.minimum_acceptable, "sessions": scored.sessions}
    if why:
        if raise_alert(turn, FITNESS, why, numbers):
            turn.report.add("alert", FITNESS, "fail", why)
        return
    over = f"fitness {scored.score:.3f} is at or above the minimum {rules.minimum_acceptable:.2f} again"
    if resolve_alert(turn, FITNESS, over):
        turn.report.add("alert", FITNESS, "pass", over)


def _traffic(turn: Turn) -> None:
    """No session in a day although the same day a week ago had at least 10 (a chance of 5e-5 by Poisson).

    An agent that is not a week old is compared with the day before instead, and not on a weekend, whose
    usual traffic nobody knows yet.
    """
    now = turn.now
    if _count(turn, now - DAY, now, 1):
        if resolve_alert(turn, NO_DATA, "sessions come in again", name=EventName.NO_DATA):
            turn.report.add("alert", NO_DATA, "pass", "sessions come in again")
        return
    expected = _count(turn, now - WEEK - DAY, now - WEEK, EXPECTED_FROM)
    young = not _count(turn, now - 5 * WEEK, now - WEEK, 1)
    if young and (now - DAY / 2).weekday() not in (SATURDAY, SUNDAY):
        expected = _count(turn, now - 2 * DAY, now - DAY, EXPECTED_FROM)
    if expected < EXPECTED_FROM:
        return
    why = (
        f"no session came in since {now - DAY:%Y-%m-%d %H:%M} UTC, {EXPECTED_FROM} or more were usual; "
        "see `prx doctor`, and whether the app still records"
    )
    if raise_alert(turn, NO_DATA, why, {"hours": 24, "usual": expected}, name=EventName.NO_DATA):
        turn.report.add("alert", NO_DATA, "not_enough_data", why)


def _count(turn: Turn, since: datetime, until: datetime, enough: int) -> int:
    """Sessions that began from `since` to `until`, counted up to `enough`."""
    found = (score for score in turn.scores(since) if score.started_at < until)
    return sum(1 for _ in islice(found, enough))
