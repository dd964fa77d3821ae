"""What was decided and why, and how often each layer is approved."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from prx.domain.decisions import Decision, DecisionOutcome, Verdict
from prx.domain.layers import Layer
from prx.fitness.numbers import rounded
from prx.ledger.port import View

_APPROVED = frozenset({Verdict.APPROVED, Verdict.AUTO_APPROVED})


@dataclass(frozen=True, slots=True)
class Filter:
    """Which decisions are wanted; None means any. `tail` keeps the newest ones only."""

    agent: str | None = None
    layer: Layer | None = None
    since: datetime | None = None
    verdict: Verdict | None = None
    outcome: DecisionOutcome | None = None
    tail: int | None = None


def decisions(view: View, wanted: Filter) -> tuple[Decision, ...]:
    """Matching decisions, oldest first."""
    found = view.find(
        Decision,
        agent=wanted.agent,
        layer=wanted.layer,
        state=wanted.verdict,
        since=wanted.since,
        newest_first=True,
        limit=wanted.tail if wanted.outcome is None else None,
    )
    matching = [one for one in found if wanted.outcome is None or one.outcome is wanted.outcome]
    return tuple(reversed(matching[: wanted.tail]))


@dataclass(frozen=True, slots=True)
class LayerStats:
    """Verdicts on the proposals of one layer; `rate` is approved / proposed in 0..1, None without any."""

    layer: Layer
    proposed: int
    approved: int
    rejected: int
    deferred: int
    undecided: int
    rate: float | None

    @property
    def shown_rate(self) -> str:
        """The rate as `97.2 %`, halves rounded up."""
        return "-" if self.rate is None else f"{rounded(self.rate * 100, 1)} %"


def stats(view: View, *, agent: str | None = None, since: datetime | None = None) -> tuple[LayerStats, ...]:
    """One row per layer. Approval by rule counts as approval; rollbacks are no proposals."""
    found = [one for one in view.find(Decision, agent=agent, since=since) if one.proposal_id is not None]
    return tuple(_stats(layer, [one for one in found if one.layer is layer]) for layer in Layer)


def _stats(layer: Layer, found: Iterable[Decision]) -> LayerStats:
    verdicts = [one.verdict for one in found]
    approved = sum(verdict in _APPROVED for verdict in verdicts)
    return LayerStats(
        layer=layer,
        proposed=len(verdicts),
        approved=approved,
        rejected=verdicts.count(Verdict.REJECTED),
        deferred=verdicts.count(Verdict.DEFERRED),
        undecided=verdicts.count(None),
        rate=approved / len(verdicts) if verdicts else None,
    )
