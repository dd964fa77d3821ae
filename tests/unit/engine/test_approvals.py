"""A yes covers exactly what was shown, by somebody who may give it, under the rules of that day."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from arranged import START, Arranged

from prx.domain.changes import AddLine, DeleteLine, PromptPatch
from prx.domain.errors import InvalidInput
from prx.domain.layers import Layer
from prx.domain.proposals import Approval, Proposal, ProposalState
from prx.engine.approvals import approval_fault, covered, must_ask, policy_version
from prx.settings import Settings, StrategyLayer

PROVEN = (ProposalState.GATED, ProposalState.SHADOWING, ProposalState.JUDGED)
RULES = Settings(enabled=True)


def approved(proposal: Proposal) -> Proposal:
    yes = Approval(
        actor="person:ann", at=START, content_hash=covered(proposal), base=proposal.base,
        policy_version=policy_version(RULES), expires_at=START + timedelta(days=45),
    )  # fmt: skip
    return msgspec.structs.replace(proposal, approval=yes)


@pytest.fixture
def proposal() -> Proposal:
    return approved(Arranged.new(RULES).propose())


def fault(proposal: Proposal, **given: Any) -> str:
    return approval_fault(proposal, given.get("at", START), given.get("policy", policy_version(RULES)))


def patch(*ops: Any, prompt: str = "system") -> PromptPatch:
    return PromptPatch(prompt=prompt, ops=ops)


@pytest.mark.parametrize(
    "change",
    [
        {"proposal_id": "other"}, {"agent": "other"}, {"layer": Layer.STRATEGY}, {"layer": Layer.MEMORY},
        {"base": "sha256:other"}, {"base": ""}, {"treated": "sha256:other"}, {"treated": ""},
        {"change": patch(AddLine("Obey."))}, {"change": patch()}, {"change": patch(DeleteLine("- x"))},
        {"change": patch(AddLine("- refund: money back\n- parcel"))}, {"change": patch(prompt="other")},
    ],
)  # fmt: skip
def test_a_yes_does_not_cover_another_change(proposal: Proposal, change: dict[str, Any]) -> None:
    assert fault(proposal) == ""
    assert fault(msgspec.structs.replace(proposal, **change)) == "the proposal changed after it was approved"


@pytest.mark.parametrize(
    "change",
    [{"why": "x"}, {"cost_usd": 1.0}, {"work": {"step": 2}}, {"state": ProposalState.JUDGED}, {"proofs": ()}],
)
def test_a_yes_covers_what_is_noted_beside_the_change(proposal: Proposal, change: dict[str, Any]) -> None:
    assert fault(msgspec.structs.replace(proposal, **change)) == ""


@pytest.mark.parametrize(
    "rules",
    [
        replace(RULES, auto_apply=True),
        replace(RULES, l3=replace(StrategyLayer(), require_approval=False)),
        replace(RULES, author_may_approve=False),
    ],
)
def test_a_yes_ends_with_the_rules_it_was_given_under(proposal: Proposal, rules: Settings) -> None:
    assert fault(proposal, policy=policy_version(rules)) == "the approval policy changed since"


def test_a_yes_forged_for_other_content_covers_nothing(proposal: Proposal) -> None:
    for forged in (proposal.treated, "", covered(proposal)[:-1]):
        yes = msgspec.structs.replace(proposal.approval, content_hash=forged)
        assert fault(msgspec.structs.replace(proposal, approval=yes)) != ""
    assert fault(proposal, at=START + timedelta(days=45)) == "the approval expired"
    assert fault(msgspec.structs.replace(proposal, approval=None)) == "no approval was given"


@pytest.mark.parametrize("actor", ["engine", "agent:helper", "", "Person:ann", "token"])
def test_only_a_person_approves(actor: str) -> None:
    arranged = Arranged.new(RULES)
    waiting = arranged.move(arranged.propose(), *PROVEN, ProposalState.AWAITING_APPROVAL)
    with pytest.raises(InvalidInput, match="only a person approves"):
        arranged.engine.approve(waiting.proposal_id, actor=actor, now=arranged.now)


def test_the_author_approves_only_where_that_is_allowed() -> None:
    for allowed in (True, False):
        arranged = Arranged.new(replace(RULES, author_may_approve=allowed))
        arranged.move(arranged.propose(), ProposalState.REJECTED)
        mine = arranged.engine.propose_prompt(
            "default", "support", "You help.\n", actor="person:ann", now=arranged.now
        )
        waiting = arranged.move(mine, *PROVEN, ProposalState.AWAITING_APPROVAL)
        if not allowed:
            with pytest.raises(InvalidInput, match="somebody else has to approve"):
                arranged.engine.approve(waiting.proposal_id, actor="person:ann", now=arranged.now)
        who = "person:ann" if allowed else "person:ben"
        done = arranged.engine.approve(waiting.proposal_id, actor=who, now=arranged.now)
        assert done.approval is not None
        assert done.approval.actor == who


@pytest.mark.parametrize(
    ("rules", "asked"),
    [
        (RULES, {Layer.PROMPT, Layer.STRATEGY}),
        (replace(RULES, auto_apply=True), {Layer.STRATEGY}),
        (replace(RULES, auto_apply=True, l3=replace(StrategyLayer(), require_approval=False)), set()),
        (replace(RULES, l3=replace(StrategyLayer(), require_approval=False)), {Layer.PROMPT, Layer.STRATEGY}),
    ],
)
def test_who_is_asked_follows_from_the_settings(rules: Settings, asked: set[Layer]) -> None:
    assert {layer for layer in (Layer.PROMPT, Layer.STRATEGY) if must_ask(rules, layer)} == asked
