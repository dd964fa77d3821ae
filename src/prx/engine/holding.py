"""Holding units back from a promoted change, and reading them as its concurrent control."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from prx.domain.experiments import CONTROL, TREATMENT, Experiment
from prx.domain.holdback import Holdback, HoldStep, holdback_of, name_holdback, with_holdback
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.scores import SessionScore
from prx.domain.versions import Version
from prx.engine.context import Context
from prx.engine.turn import Turn
from prx.ledger.port import View

PER_DAY = "sessions_per_day"
HELD = "the units held back from it do not show it"
THIN_SHARE = 0.2
MEMORY_SHARE, MEMORY_HOURS = 0.5, 24.0


@dataclass(frozen=True, slots=True)
class Sides:
    """Sessions of a watched change in order of time: those held back from it, and those that got it."""

    control: list[SessionScore]
    treated: list[SessionScore]


def hold_back(
    context: Context, view: View, proposal: Proposal, baseline: dict[str, Any], now: datetime
) -> dict[str, Any]:
    """The baseline of a change that is promoted now, with who is held back from it.

    10 % of the units for 168 h where there are 600 sessions a day; below that 20 %, out of the control of
    the experiment that it won, and none without one; a memory change half of them for its first 24 h.
    """
    experiment = view.maybe(Experiment, proposal.experiment_id) if proposal.experiment_id else None
    plan = experiment.plan if experiment else None
    given = context.settings.watch
    if given.holdback <= 0 or given.holdback_hours <= 0:
        return baseline
    share = given.holdback
    if baseline.get(PER_DAY, 0.0) < given.holdback_min_sessions_per_day:
        share = THIN_SHARE if plan else 0.0
    if plan:
        share = min(share, 1.0 - plan.traffic_split)
    steps = [(share, given.holdback_hours)] if share > 0 else []
    if proposal.layer is Layer.MEMORY:
        first = min(MEMORY_HOURS, given.holdback_hours)
        steps = [(max(MEMORY_SHARE, share), first), *(step for step in steps if step[1] > first)]
    if not steps:
        return baseline
    held = Holdback(
        holdback_id=name_holdback(proposal.proposal_id),
        layer=proposal.layer,
        previous=proposal.base,
        salt=plan.variant_salt if plan else context.ids.secret(),
        steps=tuple(HoldStep(share=part, until=now + timedelta(hours=hours)) for part, hours in steps),
        randomization_unit=plan.randomization_unit if plan else "auto",
    )
    return with_holdback(baseline, held)


def sides(turn: Turn, version: Version, since: datetime) -> Sides:
    """Both sides of the holdback of a version, of sessions that began from `since`; empty without one."""
    held = holdback_of(version)
    if held is None:
        return Sides([], [])
    found = list(turn.scores(since, experiment_id=held.holdback_id))
    return Sides(_side(found, held, CONTROL), _side(found, held, TREATMENT))


def still_held(view: View, version: Version, now: datetime) -> bool:
    """Whether units are held back from the version now: its control is concurrent only so long."""
    held = holdback_of(version)
    if held is None or held.share(now) is None or version.proposal_id is None:
        return False
    proposal = view.maybe(Proposal, version.proposal_id)
    return proposal is not None and proposal.state is ProposalState.WATCHING


def _side(scores: Iterable[SessionScore], held: Holdback, variant: str) -> list[SessionScore]:
    arms = ((score, score.arm(held.holdback_id)) for score in scores)
    return [score for score, arm in arms if arm is not None and arm.assigned == variant]
