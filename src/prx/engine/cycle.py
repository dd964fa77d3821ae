"""The slow loop: analyse what was recorded, and write candidate changes from what was found."""

import random
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from prx.analyze.analyze import Analysis, examine
from prx.analyze.rules import AnalyzeRules
from prx.domain.answers import NotEnoughData
from prx.domain.errors import InvalidInput
from prx.domain.findings import Finding
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal
from prx.domain.records import Trace
from prx.domain.scores import SessionScore
from prx.domain.versions import MemoryState, PromptSet, Strategy
from prx.engine.filing import Filing, file_proposal, known_changes, open_proposals
from prx.engine.intake import rules_for
from prx.engine.limits import enough_sessions, few_strategy_changes
from prx.engine.memorypath import tend_memory, tend_when_due
from prx.engine.modelfacts import refresh_model_facts
from prx.engine.strategypath import log_drafts
from prx.engine.timetable import due, ran_until
from prx.engine.turn import Turn
from prx.fitness.deployment import current_fitness
from prx.fitness.session import score_session
from prx.ledger.port import View
from prx.propose.draft import Current, Draft
from prx.propose.propose import consider
from prx.propose.tending import Task
from prx.release.applied import current
from prx.settings import next_due

WINDOW = timedelta(days=7)
MAX_OPEN = 5
ANALYSIS, EVOLVE = "analysis", "evolve"


def layer_settings(turn: Turn, layer: Layer) -> tuple[bool, str]:
    """(enabled, schedule) of a layer."""
    if layer is Layer.MEMORY:
        return turn.settings.l1.enabled, turn.settings.l1.schedule
    if layer is Layer.PROMPT:
        return turn.settings.l2.enabled, turn.settings.l2.schedule
    return turn.settings.l3.enabled, turn.settings.l3.schedule


def analyse_when_due(turn: Turn, *, force: bool = False) -> tuple[Finding, ...] | None:
    """Run the analysis when its time has come; None when it is not."""
    with turn.view() as view:
        if not force and not due(view, turn.agent, ANALYSIS, turn.now):
            return None
    scores = {s.session_id: s for s in turn.scores(turn.now - WINDOW)}
    found = _examined(turn, scores)
    refresh_model_facts(turn)
    with turn.transaction() as tx:
        for finding in found.findings:
            tx.put(finding)
        following = next_due(turn.settings.pipeline.analyze_schedule, turn.now)
        ran_until(tx, turn.agent, ANALYSIS, at=following, note=f"{len(found.findings)} findings")
    return found.findings


def analyse_dry(turn: Turn) -> tuple[Finding, ...]:
    """What the analysis would find now, sessions scored as they stand; nothing is written."""
    rules = rules_for(turn.context, turn.agent)
    scores = {
        trace.start.session_id: score_session(trace, rules=rules, now=turn.now) for trace in _traces(turn)
    }
    return _examined(turn, scores).findings


def _examined(turn: Turn, scores: Mapping[str, SessionScore]) -> Analysis:
    with turn.view() as view:
        known = view.find(Finding, agent=turn.agent)
        served = _served(view, turn.agent)
    found = examine(
        _traces(turn),
        scores,
        agent=turn.agent,
        now=turn.now,
        ids=turn.context.ids,
        known=known,
        rules=AnalyzeRules(sample_key=turn.context.sample_key),
        prompts=served.prompts.texts,
    )
    for finding in found.findings:
        turn.report.add("finding", finding.finding_id, "done", finding.summary)
    for undecided in found.undecided:
        turn.report.add("analysis", undecided.detector, "not_enough_data", undecided.answer.why)
    return found


def _traces(turn: Turn) -> Iterator[Trace]:
    return turn.context.records.traces(agent=turn.agent, since=turn.now - WINDOW, until=turn.now)


def evolve_when_due(
    turn: Turn,
    *,
    layers: tuple[Layer, ...] | None = None,
    dry_run: bool = False,
    found: tuple[Finding, ...] | None = None,
) -> list[str]:
    """Write proposals for every layer whose turn it is; returns their ids (texts of drafts on a dry run).

    `layers`: propose for these now, whatever the schedule says. `found`: findings to propose from instead
    of the stored ones.
    """
    tended = tend_when_due(turn) if layers is None else _tended(turn, layers)
    with turn.view() as view:
        if layers is None and not due(view, turn.agent, EVOLVE, turn.now):
            return _file_all(turn, tended, dry_run=dry_run)
        chosen = layers or tuple(layer for layer in Layer if _layer_due(turn, view, layer))
        stored = view.find(Finding, agent=turn.agent) if found is None else found
        now_served = _served(view, turn.agent)
        past = [change for layer in chosen for change in known_changes(view, turn.agent, layer)]
        tried = view.count(Proposal, agent=turn.agent)
        crowded = {layer for layer in chosen if len(open_proposals(view, turn.agent, layer)) >= MAX_OPEN}
    recent = [finding for finding in _recent(turn, stored, chosen) if finding.layer not in crowded]
    usable = enough_sessions(turn, recent, now_served)
    considered = consider(
        usable,
        current=now_served,
        traces=turn.context.records.trace,
        ids=turn.context.ids,
        now=turn.now,
        rng=random.Random(f"{turn.context.seed}/{turn.agent}/{tried}"),
        rejected=past,
        proposer=turn.context.models.proposer,
    )
    for refusal in considered.refused:
        turn.report.add("propose", refusal.trigger, _kind(refusal.answer), refusal.answer.why)
    logged = log_drafts(turn, now_served.strategy, tuple(past)) if Layer.STRATEGY in chosen else ()
    drafts = few_strategy_changes(turn, (*tended, *considered.drafts, *logged))
    filed = _file_all(turn, drafts, dry_run=dry_run)
    if dry_run:
        return filed
    with turn.transaction() as tx:
        if layers is None:
            following = next_due(turn.settings.pipeline.evolve_schedule, turn.now)
            ran_until(tx, turn.agent, EVOLVE, at=following, note=f"{len(filed)} proposals")
        for layer in chosen:
            _, schedule = layer_settings(turn, layer)
            ran_until(tx, turn.agent, f"layer.{layer}", at=next_due(schedule, turn.now))
    return filed


def tend_now(turn: Turn, tasks: tuple[Task, ...], *, dry_run: bool) -> list[str]:
    """Compact or prune the memory now, whatever the schedule says."""
    return _file_all(turn, tend_memory(turn, tasks), dry_run=dry_run)


def _tended(turn: Turn, layers: tuple[Layer, ...]) -> tuple[Draft, ...]:
    return tend_memory(turn, tuple(Task)) if Layer.MEMORY in layers else ()


def _file_all(turn: Turn, drafts: tuple[Draft, ...], *, dry_run: bool) -> list[str]:
    if dry_run:
        for draft in drafts:
            turn.report.add("propose", draft.trigger, "done", f"would propose: {draft.description}")
        return [draft.description for draft in drafts]
    return [proposal.proposal_id for draft in drafts if (proposal := _file(turn, draft))]


def _file(turn: Turn, draft: Draft) -> Proposal | None:
    fitness = fitness_now(turn)
    filing = Filing(
        agent=turn.agent,
        change=draft.change,
        description=draft.description,
        rationale=draft.rationale,
        trigger=draft.trigger,
        author=draft.author,
        fingerprint=draft.fingerprint,
        risk=draft.risk,
        data_points=turn.context.records.counts().get("interactions", 0),
        evidence=draft.evidence,
        expected=draft.expected,
        fitness_before=fitness,
        cost_usd=draft.cost_usd,
    )
    with turn.transaction() as tx:
        same = [p for p in open_proposals(tx, turn.agent, draft.layer) if p.fingerprint == draft.fingerprint]
        if same:
            turn.report.add("propose", draft.trigger, "fail", f"proposal {same[0].proposal_id} says the same")
            return None
        try:
            proposal = file_proposal(tx, filing)
        except InvalidInput as error:
            turn.report.add("propose", draft.trigger, "error", str(error))
            return None
    turn.report.add("proposal", proposal.proposal_id, "done", draft.description)
    return proposal


def fitness_now(turn: Turn) -> float | None:
    """Fitness of the current window, or None when there is not enough data."""
    rules = turn.context.fitness
    scored = current_fitness(turn.scores(turn.now - rules.window), rules=rules, now=turn.now)
    return None if isinstance(scored, NotEnoughData) else scored.score


def _layer_due(turn: Turn, view: View, layer: Layer) -> bool:
    enabled, _ = layer_settings(turn, layer)
    return enabled and due(view, turn.agent, f"layer.{layer}", turn.now)


def _recent(turn: Turn, findings: tuple[Finding, ...], layers: tuple[Layer, ...]) -> list[Finding]:
    since: datetime = turn.now - WINDOW
    return [
        finding
        for finding in findings
        if finding.layer in layers and finding.last_seen >= since and finding.resolved_at is None
    ]


def _served(view: View, agent: str) -> Current:
    try:
        manifest = current(view, agent).manifest
    except InvalidInput:
        return Current()
    parts: Mapping[Layer, object] = {layer: view.part(manifest.part(layer)) for layer in Layer}
    prompts, memory, strategy = parts[Layer.PROMPT], parts[Layer.MEMORY], parts[Layer.STRATEGY]
    assert isinstance(prompts, PromptSet)
    assert isinstance(memory, MemoryState)
    assert isinstance(strategy, Strategy)
    return Current(prompts=prompts, strategy=strategy, memory=memory)


def _kind(answer: object) -> str:
    return {"Failed": "fail", "NotEnoughData": "not_enough_data", "Broken": "error"}[type(answer).__name__]
