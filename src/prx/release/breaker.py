"""Circuit breaker: twice the failures of the baseline, confirmed by a tail probability.

The rule "failure rate above 2x baseline within an hour" alone trips without cause in most days of
ordinary traffic; it is a necessary condition here, beside a least volume and a beta-binomial tail.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

LAST_CALLS = 40
BASELINE_WEIGHS = 500


@dataclass(frozen=True, slots=True)
class Levels:
    """Tail probabilities: `fast` trips at once, `slow` when it lasts for `slow_minutes`."""

    fast: float
    slow: float


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """When a breaker trips. `strict_ratio` gives the plain 2x rule, without volume or tail."""

    ratio: float = 2.0
    min_sessions: int = 20
    min_failures: int = 5
    slow_minutes: float = 60.0
    window_hours: float = 1.0
    watch_hours: float = 24.0
    window_end_hours: float = 168.0
    strict_ratio: bool = False
    in_watch: Levels = Levels(1e-3, 0.05)
    in_window: Levels = Levels(1e-4, 0.01)
    afterwards: Levels = Levels(1e-5, 1e-3)

    def levels(self, age: timedelta) -> Levels:
        """Levels in force for a change of this age."""
        hours = age.total_seconds() / 3600
        if hours < self.watch_hours:
            return self.in_watch
        return self.in_window if hours < self.window_end_hours else self.afterwards


@dataclass(frozen=True, slots=True)
class Rate:
    """Failed sessions of all sessions whose failure is known."""

    failures: int
    sessions: int

    @property
    def share(self) -> float:
        """Failures per session; 0 when there is none."""
        return self.failures / self.sessions if self.sessions else 0.0


@dataclass(frozen=True, slots=True)
class Reading:
    """What one tick saw: the window, the baseline, their ratio and the tail probability."""

    window: Rate
    baseline: Rate
    tail: float
    arm: str
    slow_since: datetime | None

    @property
    def ratio(self) -> float:
        """Observed over baseline failure rate; infinite when the baseline has no failure."""
        if self.baseline.share == 0:
            return math.inf if self.window.failures else 0.0
        return self.window.share / self.baseline.share


@dataclass(frozen=True, slots=True)
class Trip:
    """The change must go."""

    reading: Reading
    why: str


@dataclass(frozen=True, slots=True)
class Clear:
    """No sign of harm at this tick."""

    reading: Reading


@dataclass(frozen=True, slots=True)
class Hold:
    """Too little traffic, or an excess that has not lasted yet; nothing is decided."""

    reading: Reading
    why: str


@dataclass(frozen=True, slots=True)
class CommonCause:
    """The control fails alike, more than twice as often as before: freeze promotions, blame nothing."""

    reading: Reading
    why: str


Tick = Trip | Clear | Hold | CommonCause


def predictive_tail(window: Rate, baseline: Rate) -> float:
    """P(X >= window.failures) of a beta-binomial with a Jeffreys prior updated by the baseline.

    A baseline counts as at most 500 sessions of its rate: no past hour is exactly like the present one, and
    a rate taken as known trips on the ordinary unrest of a week.
    Source: Gelman et al., Bayesian Data Analysis, 3rd ed., section 2.4 (beta prior, posterior predictive),
    prior Beta(1/2, 1/2); Ibrahim and Chen, Power prior distributions, Statistical Science 15 (2000), 46-60.
    """
    weight = min(1.0, BASELINE_WEIGHS / baseline.sessions) if baseline.sessions else 1.0
    alpha = weight * baseline.failures + 0.5
    beta = weight * (baseline.sessions - baseline.failures) + 0.5
    n, k = window.sessions, window.failures
    if k <= n * alpha / (alpha + beta):
        return 1.0 - _mass_from(k - 1, -1, n, alpha, beta)
    return _mass_from(k, n + 1, n, alpha, beta)


def _mass_from(first: int, end: int, n: int, alpha: float, beta: float) -> float:
    """Sum of beta-binomial masses from `first`, away from the middle, up to before `end`."""
    step = 1 if end > first else -1
    if first == end:
        return 0.0
    choose = math.lgamma(n + 1) - math.lgamma(first + 1) - math.lgamma(n - first + 1)
    log_mass = choose + _log_beta(first + alpha, n - first + beta) - _log_beta(alpha, beta)
    mass = math.exp(log_mass)
    masses = [mass]
    for k in range(first, end - step, step):
        # the ratio of two neighbours, which needs no gamma function
        low = k if step > 0 else k - 1
        ratio = (n - low) * (low + alpha) / ((low + 1) * (n - low - 1 + beta))
        mass = mass * ratio if step > 0 else mass / ratio
        masses.append(mass)
    return min(1.0, math.fsum(masses))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def frozen_rate(week: Rate, hours: Mapping[int, Rate], now: datetime, rules: BreakerRules) -> Rate:
    """The rate before a change that a window ending at `now` is held against: the week's or the same hour's,
    whichever is larger.

    Args: `week`: the 7 days before the change; `hours`: the same sessions by their UTC hour 0..23. The hours
        that the window touches count together; with fewer than `min_sessions` in them the week stands.
    """
    began = now - timedelta(hours=rules.window_hours)
    touched = {began.hour, now.hour} | {
        (began + timedelta(hours=h)).hour for h in range(math.ceil(rules.window_hours))
    }
    found = [hours[hour] for hour in touched if hour in hours]
    same = Rate(sum(r.failures for r in found), sum(r.sessions for r in found))
    return same if same.sessions >= rules.min_sessions and same.share > week.share else week


def concurrent_rate(control: Rate, hour: Rate, frozen: Rate, rules: BreakerRules) -> Rate:
    """The rate beside a change: of its control since it began, or of the control's own last hour where that
    is larger; the frozen one while the control has fewer than `min_sessions`."""
    enough = [rate for rate in (control, hour) if rate.sessions >= rules.min_sessions]
    return max(enough, key=lambda rate: rate.share) if enough else frozen


def tick(
    window: Rate,
    last: Rate,
    baseline: Rate,
    *,
    age: timedelta,
    slow_since: datetime | None,
    now: datetime,
    rules: BreakerRules,
    control: Rate | None = None,
    control_baseline: Rate | None = None,
) -> Tick:
    """One look of the breaker.

    Args: `window`: sessions of the last hour; `last`: of the last 40, used when the hour has fewer than
        `min_sessions`; `baseline`: concurrent control arm or the frozen rate; `slow_since`: when the slow
        condition began to hold without a break; `control`, `control_baseline`: the control's own hour and
        frozen rate, to tell a common cause.
    """
    levels = rules.levels(age)
    small = window.sessions < rules.min_sessions
    used = last if small else window
    arm = "last_40" if small else "fast"
    tail = predictive_tail(used, baseline)
    reading = Reading(used, baseline, tail, arm, None)
    if rules.strict_ratio:
        strict = Reading(window, baseline, tail, "strict_ratio", None)
        exceeds = window.failures > 0 and strict.ratio > rules.ratio
        return Trip(strict, _words(strict, "the plain ratio rule")) if exceeds else Clear(strict)
    if used.sessions < rules.min_sessions:
        return Hold(reading, f"{used.sessions} sessions, {rules.min_sessions} needed")
    if control and control_baseline and _shared(used, control, control_baseline, levels.slow, rules):
        return CommonCause(reading, _shared_words(used, control, control_baseline))
    if used.failures < rules.min_failures or reading.ratio <= rules.ratio:
        return Clear(reading)
    if tail < levels.fast:
        return Trip(reading, _words(reading, f"tail {tail:.2g} below {levels.fast:g}"))
    if small or tail >= levels.slow:
        return Clear(reading)
    since = slow_since or now
    slow = Reading(used, baseline, tail, "slow", since)
    minutes = (now - since).total_seconds() / 60
    if minutes >= rules.slow_minutes:
        return Trip(slow, _words(slow, f"tail {tail:.2g} below {levels.slow:g} for {minutes:.0f} minutes"))
    return Hold(slow, f"excess for {minutes:.0f} of {rules.slow_minutes:.0f} minutes")


def _shared(used: Rate, control: Rate, before: Rate, level: float, rules: BreakerRules) -> bool:
    """Whether both sides fail more than twice as often as before, and the control not by chance."""
    both = all(
        rate.sessions >= rules.min_sessions
        and rate.failures >= rules.min_failures
        and rate.share > rules.ratio * before.share
        for rate in (used, control)
    )
    return both and predictive_tail(control, before) < level


def _shared_words(used: Rate, control: Rate, before: Rate) -> str:
    return (
        f"{used.failures} of {used.sessions} sessions failed, and {control.failures} of {control.sessions} "
        f"without the change, against {before.failures} of {before.sessions} before: an outside cause"
    )


def _words(reading: Reading, because: str) -> str:
    window, baseline = reading.window, reading.baseline
    return (
        f"{window.failures} of {window.sessions} sessions failed ({window.share:.1%}) against "
        f"{baseline.failures} of {baseline.sessions} ({baseline.share:.1%}) before: {because}"
    )
