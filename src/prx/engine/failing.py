"""Cycles that fail in a row pause the engine until a person has looked."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import timedelta

import msgspec

from prx.domain.decisions import Decision, DecisionOutcome
from prx.domain.events import Control, Incident
from prx.domain.experiments import Experiment
from prx.domain.proposals import TERMINAL_STATES, Proposal, ProposalState
from prx.engine.context import control_of
from prx.engine.people import switch
from prx.engine.turn import Turn
from prx.ledger.port import View

ERRORS_COUNT_EVERY = timedelta(hours=1)
BY_PERSON = "person"


def settle_cycles(turn: Turn, broken: Collection[str]) -> None:
    """Count what failed; at `watch.max_failed_cycles` in a row the engine pauses and says why.

    A cycle is what one run of proposing wrote. It failed when every one of its proposals did harm: taken
    back by breaker or watch, stopped by the breaker, or harmful in its experiment. One that was confirmed
    ends the row; one that was merely refused by a check neither adds to it nor ends it. A run of the engine
    in which a step broke counts as failed too, at most once an hour, until a run without one.
    """
    limit = turn.settings.watch.max_failed_cycles
    with turn.view() as view:
        control = control_of(view, turn.agent)
        harmful = failed_in_a_row(view, turn.agent, control)
    errors = _errors(turn, control, broken)
    if control.paused or harmful + errors < limit:
        return
    parts = []
    if harmful:
        parts.append(f"{harmful} cycles in a row made only changes that did harm")
    if errors:
        parts.append(f"{errors} runs in a row broke ({', '.join(sorted(broken)) or 'see the alerts'})")
    why = (
        f"{' and '.join(parts)}; read `prx evolution history` and `prx evolution incidents`, "
        "then `prx evolution resume`"
    )
    switch(turn, "engine", why, paused=True, event="paused")
    turn.report.add("paused", turn.agent, "fail", why)


def failed_in_a_row(view: View, agent: str, control: Control) -> int:
    """Settled cycles, newest first, that failed since the newest confirmed one or the last resume."""
    cycles: dict[str, list[Proposal]] = defaultdict(list)
    for proposal in view.find(Proposal, agent=agent):
        if not proposal.author.startswith(BY_PERSON):
            cycles[proposal.cycle_id].append(proposal)
    since = control.since
    settled = [
        (max(p.state_since for p in made), made)
        for made in cycles.values()
        if all(p.state in TERMINAL_STATES for p in made)
    ]
    count = 0
    for at, made in sorted(settled, key=lambda cycle: cycle[0], reverse=True):
        if since is not None and at <= since:
            break
        if any(p.state is ProposalState.CONFIRMED for p in made):
            break
        count += all(_did_harm(view, p) for p in made)
    return count


def _did_harm(view: View, proposal: Proposal) -> bool:
    if proposal.state is ProposalState.ROLLED_BACK:
        return _taken_back_by_detector(view, proposal)
    if proposal.state is ProposalState.CANCELLED and proposal.experiment_id:
        return view.get(Experiment, proposal.experiment_id).reason == "breaker"
    if proposal.state is ProposalState.REJECTED:
        decision = view.maybe(Decision, proposal.decision_id)
        return decision is not None and decision.outcome is DecisionOutcome.REGRESSED
    return False


def _taken_back_by_detector(view: View, proposal: Proposal) -> bool:
    """A person's rollback, and the timed one of an unconfirmed change, are no failure."""
    incidents: Iterable[Incident] = view.find(Incident, agent=proposal.agent, layer=proposal.layer)
    return any(incident.proposal_id == proposal.proposal_id for incident in incidents)


def _errors(turn: Turn, control: Control, broken: Collection[str]) -> int:
    if not broken:
        if control.failed_cycles:
            _keep(turn, failed_cycles=0, failed_at=None)
        return 0
    counted = control.failed_at is not None and turn.now - control.failed_at < ERRORS_COUNT_EVERY
    if counted:
        return control.failed_cycles
    _keep(turn, failed_cycles=control.failed_cycles + 1, failed_at=turn.now)
    return control.failed_cycles + 1


def _keep(turn: Turn, **changes: object) -> None:
    with turn.transaction() as tx:
        tx.put(msgspec.structs.replace(control_of(tx, turn.agent), **changes))
