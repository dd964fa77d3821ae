"""The deterministic gate: code outside of everything that evolves, run before any model is called."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from prx.domain.answers import Answer, Broken, Failed, NotEnoughData, Passed
from prx.domain.errors import EvolutionError
from prx.domain.experiments import Experiment, ExperimentStatus
from prx.domain.proposals import ProofStep, Proposal, ProposalState
from prx.prove.candidate import content_checks
from prx.prove.gateinput import Check, GateInput, by_person
from prx.prove.rules import GateRules
from prx.prove.steps import proof_step

_UNDERWAY = frozenset(
    {
        ProposalState.GATED,
        ProposalState.SHADOWING,
        ProposalState.JUDGED,
        ProposalState.AWAITING_APPROVAL,
        ProposalState.EXPERIMENTING,
        ProposalState.WATCHING,
    }
)
LAYER_CODES = frozenset({"layer_busy", "experiment_running"})
WAITS = "waits_for_layer"
_ENDED = frozenset({ExperimentStatus.CONVERGED, ExperimentStatus.CANCELLED})


def gate(given: GateInput, rules: GateRules) -> tuple[ProofStep, ...]:
    """One step per check, in order; `overall` of `prx.prove.steps` makes one answer of them.

    Checks of the text are left out when the change does not even apply or reaches out of scope: there is
    nothing then that could safely be read further.
    """
    checks = [*content_checks(given, rules), *_circumstances(given, rules)]
    return tuple(proof_step(f"gate.{c.name}", c.answer, given.now, numbers=c.numbers) for c in checks)


def _circumstances(given: GateInput, rules: GateRules) -> Iterator[Check]:
    proposal, now = given.proposal, given.now
    yield Check("conflicts", layer_free(proposal, given.proposals, given.experiments))
    day = [at for at in given.recent if now - timedelta(days=1) < at <= now]
    busy = Failed(f"{len(day)} changes in the last day, at most {rules.max_changes_per_day}", "rate_limited")
    calm = Passed(f"{len(day)} changes in the last day")
    yield Check("rate", busy if len(day) >= rules.max_changes_per_day else calm)
    waiting = given.cooldown_until is not None and now < given.cooldown_until
    cooling = Failed(f"the layer cools down until {given.cooldown_until}", "cooldown")
    yield Check("cooldown", cooling if waiting else Passed("no cooldown"))
    copied = given.failed_before(proposal)
    copy = Failed(f"it copies a change that failed ({copied}); a real difference is needed", "failed_before")
    yield Check("fingerprint", copy if copied else Passed("not tried before"))
    open_incidents = [i.incident_id for i in given.incidents if i.acknowledged_at is None]
    trouble = Failed(f"incident {', '.join(open_incidents)} is open; acknowledge it first", "open_incident")
    yield Check("incident", trouble if open_incidents else Passed("no open incident"))
    yield Check(
        "data", _data(given, rules), {"data_points": given.data_points, "needed": rules.min_data_points}
    )
    yield Check("health", _health(given.health))


def layer_free(mine: Proposal, proposals: Sequence[Proposal], experiments: Sequence[Experiment]) -> Answer:
    """Whether a proposal may be worked on: one at a time in a layer, and a person's before the engine's.

    A proposal that was put off because of it carries `WAITS` in its work.
    """
    for other in proposals:
        same = (
            other.agent == mine.agent and other.layer is mine.layer and other.proposal_id != mine.proposal_id
        )
        if same and other.state in _UNDERWAY:
            return Failed(f"proposal {other.proposal_id} of the same layer is {other.state}", "layer_busy")
        waits = other.state is ProposalState.PROPOSED or bool(other.work.get(WAITS))
        if same and waits and by_person(other) and not by_person(mine):
            return Failed(f"proposal {other.proposal_id} of {other.author} comes first", "layer_busy")
    for experiment in experiments:
        same = experiment.agent == mine.agent and experiment.layer is mine.layer
        if same and experiment.proposal_id != mine.proposal_id and experiment.status not in _ENDED:
            return Failed(f"experiment {experiment.experiment_id} runs on the layer", "experiment_running")
    return Passed("nothing else is under way on the layer")


def _data(given: GateInput, rules: GateRules) -> Answer:
    if given.data_points < rules.min_data_points:
        return NotEnoughData(f"{given.data_points} interactions recorded, {rules.min_data_points} needed")
    return Passed(f"{given.data_points} interactions recorded")


def _health(check: Callable[[], Answer] | None) -> Answer:
    if check is None:
        return Passed("no health check is configured")
    try:
        return check()
    except (EvolutionError, OSError) as error:
        return Broken(f"the health check itself failed: {error}")
