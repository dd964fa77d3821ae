"""Nothing is served without its proofs, whatever the state of a record says."""

from datetime import timedelta

import msgspec
import pytest
from arranged import AGENT, PROOFS, Arranged, session

from prx.domain.errors import Conflict
from prx.domain.experiments import Experiment
from prx.domain.proposals import Proposal, ProposalState
from prx.engine.watching import freeze_baseline
from prx.release.evidence import missing_proofs
from prx.release.promote import promote
from prx.settings import Experiments, Settings


@pytest.fixture
def arranged() -> Arranged:
    settings = Settings(enabled=True, auto_apply=True, experiments=Experiments(outcome_window_hours=0.1))
    made = Arranged.new(settings)
    for k in range(1500):
        at = made.now + timedelta(minutes=10 * k)
        made.write(session(f"before-{k}", at, outcome=float(k % 3 > 0), latency_ms=300 + k % 900))
    made.pass_hours(24 * 12)
    made.engine.advance(made.now)
    return made


def judged_without(arranged: Arranged, name: str) -> Proposal:
    """A proposal in state judged whose proof `name` is not there."""
    proposal = arranged.move(
        arranged.propose(), ProposalState.GATED, ProposalState.SHADOWING, ProposalState.JUDGED
    )
    forged = msgspec.structs.replace(proposal, proofs=tuple(p for p in PROOFS if p.name != name))
    with arranged.context.ledger.transaction(now=arranged.now, actor="attacker") as tx:
        tx.put(forged)
    return forged


@pytest.mark.parametrize("name", ["gate.scope", "gate.replay", "shadow", "judge"])
def test_a_prompt_without_one_of_its_proofs_starts_no_experiment(arranged: Arranged, name: str) -> None:
    forged = judged_without(arranged, name)
    arranged.engine.advance(arranged.now)
    with arranged.context.ledger.view() as view:
        found = view.get(Proposal, forged.proposal_id)
        assert view.find(Experiment, agent=AGENT) == ()
    assert found.state is ProposalState.CANCELLED
    assert name in found.why


def test_a_promotion_without_proofs_is_refused_and_writes_nothing(arranged: Arranged) -> None:
    forged = judged_without(arranged, "judge")
    baseline = freeze_baseline(arranged.context, AGENT, arranged.now)
    with (
        pytest.raises(Conflict, match="without a passing judge"),
        arranged.context.ledger.transaction(now=arranged.now, actor="engine") as tx,
    ):
        promote(tx, forged, why="x", evidence="live", baseline=baseline)
    with arranged.context.ledger.view() as view:
        pointer = view.pointer(AGENT)
    assert pointer is not None
    assert pointer.label == "v1.0"


def test_the_newest_step_of_a_name_counts(arranged: Arranged) -> None:
    proposal = judged_without(arranged, "nothing")
    assert missing_proofs(proposal) == ()
    worse = msgspec.structs.replace(PROOFS[3], answer="fail")
    assert missing_proofs(msgspec.structs.replace(proposal, proofs=(*PROOFS, worse))) == ("judge",)
