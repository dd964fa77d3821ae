"""From findings to bounded, typed changes."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from prx.domain.answers import Broken, Failed, NotEnoughData
from prx.domain.changes import Change, PromptPatch, layer_of
from prx.domain.findings import Finding, FindingKind
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.domain.plaintext import quoted
from prx.models.port import ChatModel
from prx.propose.describe import describe
from prx.propose.draft import Considered, Current, Draft, NoDraft, PastChange, ProposeRules
from prx.propose.effect import expected_effect
from prx.propose.evidence import Case, Traces, agreed_case, cases_of
from prx.propose.fingerprint import blocked_by, fingerprint
from prx.propose.modeledit import model_edit
from prx.propose.risk import risk_of
from prx.propose.ruleedit import rule_edit
from prx.propose.strategystep import strategy_step

Refusal = Failed | NotEnoughData | Broken
BY_RULE = "engine:rule"


@dataclass(frozen=True, slots=True)
class _Written:
    """One attempt: the change or why none, who wrote it, the evidence it rests on, and what it cost."""

    answer: Change | Refusal
    author: str = BY_RULE
    evidence: tuple[str, ...] = ()
    cost_usd: float | None = 0.0
    calls: int = 0


@dataclass(frozen=True, slots=True)
class _Desk:
    """What every attempt of one round works with."""

    current: Current
    rules: ProposeRules
    past: Sequence[PastChange]
    proposer: ChatModel | None
    ids: Ids
    now: datetime
    rng: random.Random


def propose(
    findings: Sequence[Finding],
    *,
    current: Current,
    traces: Traces,
    ids: Ids,
    now: datetime,
    rng: random.Random,
    rejected: Sequence[PastChange] = (),
    rules: ProposeRules | None = None,
    proposer: ChatModel | None = None,
) -> tuple[Draft, ...]:
    """The drafts of `consider` alone; what came to nothing, and why, is in `consider`."""
    return consider(
        findings,
        current=current,
        traces=traces,
        ids=ids,
        now=now,
        rng=rng,
        rejected=rejected,
        rules=rules,
        proposer=proposer,
    ).drafts


def consider(
    findings: Sequence[Finding],
    *,
    current: Current,
    traces: Traces,
    ids: Ids,
    now: datetime,
    rng: random.Random,
    rejected: Sequence[PastChange] = (),
    rules: ProposeRules | None = None,
    proposer: ChatModel | None = None,
) -> Considered:
    """For every finding, most severe first, one draft or the reason why there is none.

    current: parts served now. traces: session id to trace, for evidence. rejected: changes that failed; none
    of them is proposed again, nor a copy in other looks, nor a second draft of this round. proposer: writes
    prompt edits when given, and then alone: if it breaks, that is the answer, no rule steps in. Equal input,
    generator state and replies give equal drafts.
    """
    using = rules or ProposeRules()
    drafts: list[Draft] = []
    refused: list[NoDraft] = []
    costs: list[float | None] = []
    calls = 0
    per_layer: Counter[Layer] = Counter()
    for finding in sorted(findings, key=lambda f: -f.severity):
        if per_layer[finding.layer] >= using.max_per_layer:
            why = f"{using.max_per_layer} changes of {finding.layer.label} are drafted already"
            refused.append(NoDraft(finding.finding_id, Failed(why, "enough_drafts")))
            continue
        cases = cases_of(finding.evidence, traces, agent=finding.agent, rules=using)
        past = [*rejected, *(PastChange(d.fingerprint, d.change, "drafted in this round") for d in drafts)]
        desk = _Desk(current, using, past, proposer, ids, now, rng)
        written = _write(finding, cases, desk)
        calls += written.calls
        costs.append(written.cost_usd)
        if isinstance(written.answer, Failed | NotEnoughData | Broken):
            refused.append(NoDraft(finding.finding_id, written.answer))
            continue
        drafts.append(_draft(finding, written.answer, written, current, using))
        per_layer[finding.layer] += 1
    priced = [cost for cost in costs if cost is not None]
    total = sum(priced) if len(priced) == len(costs) else None
    return Considered(tuple(drafts), tuple(refused), total, calls)


def _write(finding: Finding, cases: Sequence[Case], desk: _Desk) -> _Written:
    if finding.layer is Layer.PROMPT:
        return _write_prompt(finding, cases, desk)
    shown = tuple(case.session_id for case in cases)
    if finding.layer is Layer.STRATEGY:
        step = strategy_step(finding, desk.current.strategy)
        return _Written(_unless_past(step, desk.past), evidence=shown)
    if finding.kind is FindingKind.MEMORY_GAP:
        return _Written(_untold_knowledge(cases, desk.rules), evidence=shown)
    return _Written(NotEnoughData("no rule writes a memory change from this finding"))


def _write_prompt(finding: Finding, cases: Sequence[Case], desk: _Desk) -> _Written:
    text = desk.current.prompts.texts.get(finding.prompt or "")
    if text is None:
        return _Written(NotEnoughData("the finding names no prompt that is served now"))
    if desk.proposer is None:
        answer = rule_edit(finding, text, cases, past=desk.past, rules=desk.rules, rng=desk.rng)
        return _Written(answer, evidence=tuple(case.session_id for case in cases))
    edit = model_edit(
        finding, text, cases, past=desk.past, rules=desk.rules, proposer=desk.proposer, rng=desk.rng
    )
    author = f"engine:{quoted(desk.proposer.name, 60)}"
    if edit.reply is None:
        return _Written(edit.answer, author, calls=int(isinstance(edit.answer, Broken)))
    return _Written(edit.answer, author, edit.evidence, edit.reply.cost_usd, 1)


def _unless_past(answer: Change | Refusal, past: Sequence[PastChange]) -> Change | Refusal:
    if isinstance(answer, Failed | NotEnoughData | Broken):
        return answer
    old = blocked_by(answer, past)
    if old is None:
        return answer
    return Failed(
        f"the same change failed before: {quoted(old.why or old.fingerprint, 120)}", "failed_before"
    )


def _untold_knowledge(cases: Sequence[Case], rules: ProposeRules) -> Refusal:
    """What the app might store: a derived entry needs stored ones, by which it is scoped and erased."""
    case = agreed_case(cases, rules.min_users)
    if case is None or case.answer is None:
        return NotEnoughData(f"no answer about this topic is agreed on by {rules.min_users} users")
    told = f"{quoted(case.request, 80)}: {quoted(case.answer, 80)}"
    why = f"no stored entry says {told!r}, and nothing is derived from none; store it with session.remember"
    return Failed(why, "no_source")


def _draft(
    finding: Finding, change: Change, written: _Written, current: Current, rules: ProposeRules
) -> Draft:
    before = current.prompts.texts.get(change.prompt, "") if isinstance(change, PromptPatch) else ""
    return Draft(
        layer=layer_of(change),
        change=change,
        description=describe(change),
        rationale=f"{finding.summary} {finding.recommendation}",
        trigger=finding.finding_id,
        evidence=written.evidence,
        expected=expected_effect(finding, rules),
        risk=risk_of(change, before=before, by_model=written.author != BY_RULE),
        fingerprint=fingerprint(change),
        author=written.author,
        cost_usd=written.cost_usd,
    )
