"""What another routing would have brought, from choices that were logged with their probabilities.

Three estimators of the difference in mean reward between candidate and incumbent, w = target/propensity:

    IPS    mean((w_c - w_i) r)                                              Horvitz & Thompson 1952
    SNIPS  sum(w_c r) / sum(w_c) - sum(w_i r) / sum(w_i)                    Swaminathan & Joachims 2015
    DR     mean(q_c(x) - q_i(x) + (w_c - w_i) (r - q(x, a)))                Dudik et al. 2011

q is a cross-fitted outcome model: mean reward by stratum and model from the other folds, shrunk towards the
model's mean. Standard errors are robust to several choices of one unit (sums within units). Only choices on
which the two routings differ are used, since the others add exactly 0 to the difference.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist, fmean
from typing import Any

from prx.domain.answers import Answer, Broken, Failed, NotEnoughData, Passed

_Rows = list[float]


@dataclass(frozen=True, slots=True)
class Choice:
    """One logged choice. `stratum`: what the outcome model may know (intent). `reward` in 0..1.

    `candidate`, `incumbent`: probability of each model under the two routings. `arms`: probability of each
    model when it was chosen, where that was logged; empty when only the chosen one's is known.
    """

    unit: str
    stratum: str
    model: str
    propensity: float
    reward: float
    candidate: Mapping[str, float]
    incumbent: Mapping[str, float]
    arms: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class ScreenRules:
    """Floors of the screen.

    ESS must reach max(`min_ess`, `ess_share` n). `min_arm`: choices of every model that the candidate uses.
    `max_loss`: reward points of loss that DR must exclude. `agreement`: standard errors that SNIPS and DR may
    be apart. `calibration`: standard errors that logged propensities may be off. `prior`: pseudo-choices that
    shrink a cell.
    """

    confidence: float = 0.95
    min_ess: float = 200.0
    ess_share: float = 0.05
    min_arm: int = 30
    max_loss: float = 0.10
    folds: int = 5
    prior: float = 10.0
    agreement: float = 2.0
    calibration: float = 4.0


@dataclass(frozen=True, slots=True)
class Difference:
    """Candidate minus incumbent in reward points per choice, with its interval."""

    estimate: float
    error: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class OffPolicy:
    """All three differences, the effective sample size of the candidate's weights, and the largest weight.

    `n` choices of `units` units on which the routings differ."""

    ips: Difference
    snips: Difference
    dr: Difference
    ess: float
    max_weight: float
    n: int
    units: int

    def numbers(self) -> dict[str, Any]:
        """Every number, for a proof step."""
        return asdict(self)


def screen(choices: Sequence[Choice], rules: ScreenRules) -> tuple[Answer, dict[str, Any]]:
    """Whether the candidate routing may go on to an experiment, with every number used.

    Passes when the logs support it, DR does not show it to be worse and excludes a large loss; fails when DR
    shows it to be worse; not enough data without exploration, support, effective sample size, precision or
    agreement of the estimators;
    broken when logged probabilities cannot be right.
    """
    wrong = _impossible(choices)
    if wrong:
        return Broken(wrong), {}
    used = [choice for choice in choices if _differs(choice)]
    if not used:
        return NotEnoughData("no logged choice would have gone differently"), {"n": 0}
    if all(choice.propensity == 1.0 for choice in used):
        why = (
            f"all {len(used)} choices were certain; without exploration nothing is known of other models "
            "(a person can set explore to 0.03 to 0.2)"
        )
        return NotEnoughData(why), {"n": len(used)}
    unsupported = _unsupported(used, rules)
    if unsupported:
        return NotEnoughData(unsupported), {"n": len(used)}
    off = _miscalibrated(used, rules)
    if off:
        return Broken(off), {"n": len(used)}
    found = estimate(used, rules)
    needed = max(rules.min_ess, rules.ess_share * found.n)
    numbers = {**found.numbers(), "ess_needed": needed, "confidence": rules.confidence}
    if found.ess < needed:
        return NotEnoughData(f"effective sample size {found.ess:.0f} of {needed:.0f} needed"), numbers
    dr = found.dr
    shown = f"{dr.estimate:+.4f} ({dr.low:+.4f} to {dr.high:+.4f}) per choice over {found.n} choices"
    if dr.high < 0:
        return Failed(f"the logs show it to be worse: {shown}", "worse_off_policy"), numbers
    if dr.low < -rules.max_loss:
        return NotEnoughData(f"a loss of {rules.max_loss:g} is not excluded: {shown}"), numbers
    apart = abs(found.snips.estimate - dr.estimate)
    if apart > rules.agreement * max(found.snips.error, dr.error):
        return NotEnoughData(f"the estimators disagree by {apart:.4f}; more logs are needed"), numbers
    return Passed(f"not worse by the logs: {shown}"), numbers


def estimate(choices: Sequence[Choice], rules: ScreenRules) -> OffPolicy:
    """All three estimators on `choices`, which must be at least two units with positive propensities."""
    reward = [choice.reward for choice in choices]
    cand = [c.candidate.get(c.model, 0.0) / c.propensity for c in choices]
    incu = [c.incumbent.get(c.model, 0.0) / c.propensity for c in choices]
    taken, gain = _outcomes(choices, rules)
    ips = [(c - i) * r for c, i, r in zip(cand, incu, reward, strict=True)]
    rest = zip(gain, cand, incu, reward, taken, strict=True)
    dr = [g + (c - i) * (r - q) for g, c, i, r, q in rest]
    value_c, pull_c = _normalised(cand, reward)
    value_i, pull_i = _normalised(incu, reward)
    snips = [a - b for a, b in zip(pull_c, pull_i, strict=True)]
    units = [choice.unit for choice in choices]
    squares = sum(weight * weight for weight in cand)
    return OffPolicy(
        ips=_difference(fmean(ips), _centred(ips), units, rules.confidence),
        snips=_difference(value_c - value_i, snips, units, rules.confidence),
        dr=_difference(fmean(dr), _centred(dr), units, rules.confidence),
        ess=sum(cand) ** 2 / squares if squares > 0 else 0.0,
        max_weight=max(*cand, *incu),
        n=len(choices),
        units=len(set(units)),
    )


def _impossible(choices: Sequence[Choice]) -> str:
    for choice in choices:
        if not 0.0 < choice.propensity <= 1.0 or not math.isfinite(choice.reward):
            told = f"propensity {choice.propensity} and reward {choice.reward}"
            return f"a choice of unit {choice.unit!r} has {told}, which cannot be"
        if choice.arms and abs(choice.arms.get(choice.model, 0.0) - choice.propensity) > 1e-9:
            return f"a choice of unit {choice.unit!r} says two different propensities"
    return ""


def _differs(choice: Choice) -> bool:
    models = choice.candidate.keys() | choice.incumbent.keys()
    return any(abs(choice.candidate.get(m, 0.0) - choice.incumbent.get(m, 0.0)) > 1e-12 for m in models)


def _unsupported(choices: Sequence[Choice], rules: ScreenRules) -> str:
    counts: dict[str, int] = defaultdict(int)
    for choice in choices:
        counts[choice.model] += 1
    wanted = sorted({m for c in choices for m, share in c.candidate.items() if share > 0})
    thin = [model for model in wanted if counts[model] < rules.min_arm]
    if thin:
        listed = ", ".join(f"{model} {counts[model]}" for model in thin)
        return f"too few logged choices of models that it uses, {rules.min_arm} of each needed: {listed}"
    never = sum(
        any(share > 0 and choice.arms.get(m, 0.0) <= 0 for m, share in choice.candidate.items())
        for choice in choices
        if choice.arms
    )
    if never:
        return f"in {never} of {len(choices)} logged choices it would take a model that could not be chosen"
    return ""


def _miscalibrated(choices: Sequence[Choice], rules: ScreenRules) -> str:
    """Logged probabilities against how often each model was really chosen, where all arms are logged."""
    logged = [choice for choice in choices if choice.arms]
    for model in sorted({m for choice in logged for m in choice.arms or {}}):
        expected, taken = 0.0, 0
        # a unit's choices are drawn once and repeat, so its count varies by the square of its size
        spread: dict[str, float] = defaultdict(float)
        for choice in logged:
            share = (choice.arms or {}).get(model, 0.0)
            expected += share
            taken += choice.model == model
            spread[choice.unit] += math.sqrt(max(0.0, share * (1 - share)))
        error = math.sqrt(sum(value * value for value in spread.values()))
        if abs(taken - expected) > rules.calibration * error + 1e-9:
            return (
                f"model {model} was chosen {taken} times where the logged probabilities add up to "
                f"{expected:.0f} (standard error {error:.1f}); they cannot be right"
            )
    return ""


def _outcomes(choices: Sequence[Choice], rules: ScreenRules) -> tuple[_Rows, _Rows]:
    """Predicted reward of the model taken, and predicted difference, by cells of the other folds."""
    folds = [_fold(choice.unit, rules.folds) for choice in choices]
    cells = [
        _Cells([c for c, f in zip(choices, folds, strict=True) if f != held], rules.prior)
        for held in range(rules.folds)
    ]
    taken: _Rows = []
    gain: _Rows = []
    for choice, fold in zip(choices, folds, strict=True):
        mean = cells[fold].mean
        taken.append(mean(choice.stratum, choice.model))
        values = [
            sum(share * mean(choice.stratum, model) for model, share in target.items())
            for target in (choice.candidate, choice.incumbent)
        ]
        gain.append(values[0] - values[1])
    return taken, gain


class _Cells:
    """Mean reward by stratum and model, each cell shrunk to its model, each model to the whole."""

    def __init__(self, choices: Sequence[Choice], prior: float) -> None:
        self._prior = prior
        self._sums: dict[tuple[str, ...], float] = defaultdict(float)
        self._counts: dict[tuple[str, ...], int] = defaultdict(int)
        for choice in choices:
            for key in ((), (choice.model,), (choice.stratum, choice.model)):
                self._sums[key] += choice.reward
                self._counts[key] += 1

    def mean(self, stratum: str, model: str) -> float:
        whole = self._sums[()] / self._counts[()] if self._counts[()] else 0.0
        return self._shrunk((stratum, model), self._shrunk((model,), whole))

    def _shrunk(self, key: tuple[str, ...], towards: float) -> float:
        return (self._sums[key] + self._prior * towards) / (self._counts[key] + self._prior)


def _normalised(weights: _Rows, reward: _Rows) -> tuple[float, _Rows]:
    """Weighted mean of the reward, and how far each choice pulls at it."""
    total = sum(weights)
    if total <= 0:
        return 0.0, [0.0] * len(weights)
    value = sum(w * r for w, r in zip(weights, reward, strict=True)) / total
    return value, [w * (r - value) * len(weights) / total for w, r in zip(weights, reward, strict=True)]


def _centred(values: _Rows) -> _Rows:
    mean = fmean(values)
    return [value - mean for value in values]


def _difference(value: float, pull: _Rows, units: Sequence[str], confidence: float) -> Difference:
    """Interval on a normal scale, from the sums of the pulls within units."""
    sums: dict[str, float] = defaultdict(float)
    for unit, own in zip(units, pull, strict=True):
        sums[unit] += own
    count = len(sums)
    if count < 2:
        return Difference(value, math.inf, -math.inf, math.inf)
    error = math.sqrt(count / (count - 1) * sum(own * own for own in sums.values())) / len(pull)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    return Difference(value, error, value - z * error, value + z * error)


def _fold(unit: str, folds: int) -> int:
    digest = hashlib.blake2b(unit.encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % folds
