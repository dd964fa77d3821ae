"""The memory layer in the engine: taking in what sessions wrote, tending it, and proof by query replay."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from prx.domain.answers import Broken, Failed
from prx.domain.changes import MemoryPatch
from prx.domain.errors import InvalidInput, StoreError
from prx.domain.events import Due
from prx.domain.layers import Layer
from prx.domain.memory import (
    SHARED,
    Ask,
    EntryStatus,
    InForce,
    LoggedQuery,
    MemoryStats,
    derived_entry,
    in_force,
)
from prx.domain.proposals import ProofStep, Proposal, ProposalState
from prx.domain.records import Trace
from prx.domain.restating import restates, saying_of
from prx.domain.versions import MemoryState, PromptSet, VersionSource
from prx.engine.context import ENGINE, Context
from prx.engine.filing import open_proposals, past_changes
from prx.engine.report import Report
from prx.engine.timetable import due, ran_until
from prx.engine.turn import Turn
from prx.ledger.port import View
from prx.memory.learning import learned
from prx.memory.port import MemoryStore
from prx.propose.draft import Draft
from prx.propose.memoryedit import MemoryRules
from prx.propose.tending import Task, tend
from prx.prove.memoryreplay import (
    REPLAY,
    MemoryReplayRules,
    ReplayedQuery,
    change_verdict,
    replay_verdict,
)
from prx.prove.steps import proof_step
from prx.release.applied import current
from prx.release.promote import initial_version
from prx.settings import next_due

JOB, WHOLE = "memory", "memory.whole"
EVERY_DAY = timedelta(days=1)
COALESCED = timedelta(hours=1)
_BATCH = 1000


def sync_memory(context: Context, now: datetime, report: Report) -> int:
    """Bring the memory store up to date with the records; returns how many entries were new.

    A store that was lost is filled again from the first record on, and with the derived entries of the
    versions in force. One that fails is reported and costs the other layers nothing. An agent that only
    remembers, and has no prompt, gets its first version here.
    """
    if context.memory is None:
        return 0
    try:
        return _sync(context, context.memory, now)
    except StoreError as error:
        report.add("memory", "store", "error", str(error))
        return 0


def _sync(context: Context, store: MemoryStore, now: datetime) -> int:
    new, after = 0, store.cursor()
    agents: set[str] = set()
    while True:
        cursor, sessions = context.records.changed_sessions(after=after, limit=_BATCH)
        if not sessions:
            break
        found = [learned(trace) for trace in _remembering(context, sessions)]
        agents |= {entry.scope.agent for session in found for entry in session.entries}
        new += store.learn(found)
        store.set_cursor(cursor)
        after = cursor
    with context.ledger.view() as view:
        states = [memory_state(view, agent) for agent in view.agents()]
        unversioned = sorted(agent for agent in agents if view.pointer(agent) is None)
    for agent in unversioned:
        _first_version(context, agent, now)
    for state in states:
        derive(store, in_force(state))
    return new


def _first_version(context: Context, agent: str, now: datetime) -> None:
    with context.ledger.transaction(now=now, actor=ENGINE) as tx:
        if tx.pointer(agent) is None:
            note = "memory as its sessions wrote it; no prompt is managed yet"
            initial_version(tx, agent, prompts=PromptSet(), source=VersionSource.INITIAL, note=note)


def derive(store: MemoryStore, force: InForce) -> None:
    """Make the derived entries of these operations known to the store; they count only where in force."""
    stored = {entry.memory_id for entry in store.known(list(force.derived))} if force.derived else set()
    for add in force.derived.values():
        if add.memory_id not in stored:
            entry = derived_entry(add, store.known(add.derived_from))
            if entry is not None:
                store.derive([entry])


def memory_state(view: View, agent: str) -> MemoryState:
    """The memory part that the agent is served; the empty one before its first version."""
    try:
        part = view.part(current(view, agent).manifest.memory)
    except InvalidInput:
        return MemoryState()
    assert isinstance(part, MemoryState)
    return part


def tend_when_due(turn: Turn) -> tuple[Draft, ...]:
    """What the layer's own schedule proposes: at most one change, never while one is under way.

    The whole memory is gone through once a day, and besides when so much is new that it could make a topic.
    """
    settings = turn.settings.l1
    if turn.context.memory is None or not settings.enabled:
        return ()
    with turn.view() as view:
        if not due(view, turn.agent, JOB, turn.now) or _under_way(turn, view):
            return ()
        last = view.maybe(Due, f"{turn.agent}/{WHOLE}")
    looked = None if last is None or last.at <= turn.now else last.last_run
    drafts = tend_memory(turn, tuple(Task), looked=looked)
    with turn.transaction() as tx:
        following = next_due(settings.schedule, turn.now)
        ran_until(tx, turn.agent, JOB, at=following, note=f"{len(drafts)} proposals")
        if looked is None and not drafts:
            ran_until(tx, turn.agent, WHOLE, at=turn.now + EVERY_DAY)
    return drafts


def tend_memory(turn: Turn, tasks: tuple[Task, ...], *, looked: datetime | None = None) -> tuple[Draft, ...]:
    """The next compaction or pruning, if any; says why clusters were left alone.

    looked: when everything was gone through and found in order; then little that is new needs no look.
    """
    store = turn.context.memory
    if store is None:
        turn.report.add("memory", turn.agent, "not_enough_data", "no memory store is in use here")
        return ()
    with turn.view() as view:
        force = in_force(memory_state(view, turn.agent))
        past = past_changes(view, turn.agent, Layer.MEMORY)
    try:
        entries = store.entries(turn.agent, force=force, at=turn.now)
    except StoreError as error:
        turn.report.add("memory", "store", "error", str(error))
        return ()
    if looked is not None:
        fresh = sum(entry.created_at > looked for entry in entries)
        if fresh <= turn.settings.l1.compaction_threshold:
            return ()
    if not entries:
        return ()
    found = tend(entries, rules=_rules(turn), ids=turn.context.ids, now=turn.now, past=past, tasks=tasks)
    for subject, answer in found.refused:
        kind = "fail" if isinstance(answer, Failed) else "not_enough_data"
        turn.report.add("memory", subject, kind, answer.why)
    return () if found.draft is None else (found.draft,)


def memory_stats(context: Context, agent: str, now: datetime) -> MemoryStats:
    """What the agent's memory holds. Raises: InvalidInput where no memory store is in use, StoreError."""
    store = context.memory
    if store is None:
        raise InvalidInput("no memory store is in use here; open the installation with one")
    with context.ledger.view() as view:
        force = in_force(memory_state(view, agent))
    entries = store.entries(agent, force=force, at=now)
    by_status = Counter(entry.status for entry in entries)
    active = [entry for entry in entries if entry.status is EntryStatus.ACTIVE]
    return MemoryStats(
        agent=agent,
        active=len(active),
        archived=by_status[EntryStatus.ARCHIVED],
        superseded=by_status[EntryStatus.SUPERSEDED],
        summaries=sum(bool(entry.derived_from) for entry in active),
        pinned=sum(entry.pinned for entry in active),
        shared=sum(entry.scope.owner == SHARED for entry in active),
        characters=sum(len(entry.text) for entry in active),
        retrieved=sum(entry.retrieved for entry in entries),
        confirmed=sum(entry.confirmed for entry in entries),
        contradicted=sum(entry.contradicted for entry in entries),
        queries=len(store.queries(agent, limit=MemoryReplayRules().max_queries)),
    )


def prove_memory(turn: Turn, proposal: Proposal) -> tuple[ProofStep, ...]:
    """The change checked against its sources, then the last logged queries with and without it.

    Nothing of the store changes what is recalled: both sides are the same store under two memory parts.
    """
    store, change = turn.context.memory, proposal.change
    assert store is not None
    assert isinstance(change, MemoryPatch)
    with turn.view() as view:
        base, treated = view.part(proposal.base), view.part(proposal.treated)
    assert isinstance(base, MemoryState)
    assert isinstance(treated, MemoryState)
    sides = _Sides(store, in_force(base), in_force(treated), MemoryReplayRules(), turn.now)
    try:
        entries = store.entries(turn.agent, force=sides.before, at=turn.now)
        by_person = proposal.author.startswith("person")
        checked = change_verdict(change, entries, sides.rules, turn.now, by_person=by_person)
        if checked.answer != "pass":
            return (checked,)
        derive(store, sides.after)
        logged = store.queries(turn.agent, limit=sides.rules.max_queries)
        replayed = [sides.replayed(query) for query in logged]
    except StoreError as error:
        return (proof_step(REPLAY, Broken(f"the memory store failed: {error}"), turn.now),)
    return (checked, replay_verdict(replayed, sides.rules, turn.now))


@dataclass(frozen=True, slots=True)
class _Sides:
    """One store under two sets of operations."""

    store: MemoryStore
    before: InForce
    after: InForce
    rules: MemoryReplayRules
    now: datetime

    def replayed(self, query: LoggedQuery) -> ReplayedQuery:
        ask = Ask(reader=query.reader, query=query.query, at=self.now, k=self.rules.k)
        return ReplayedQuery(
            query_id=query.query_id,
            evidence=query.evidence,
            confirmed=query.confirmed,
            before=_reached(self.store, ask, self.before, query.evidence),
            after=_reached(self.store, ask, self.after, query.evidence),
        )


def _reached(store: MemoryStore, ask: Ask, force: InForce, evidence: Iterable[str]) -> frozenset[str]:
    """What was recalled, what it was derived from, and evidence that one of the recalled restates."""
    found = store.recall(ask, force)
    reached = frozenset(one for hit in found for one in force.behind(hit.memory_id))
    missing = [one for one in evidence if one not in reached]
    said = [saying_of(hit.text) for hit in found]
    again = (
        entry.memory_id
        for entry in (store.known(missing) if missing else ())
        if any(restates(saying_of(entry.text), one) for one in said)
    )
    return reached | frozenset(again)


def _remembering(context: Context, sessions: Iterable[str]) -> Iterator[Trace]:
    for session_id in sessions:
        trace = context.records.trace(session_id)
        if trace is None:
            continue
        if trace.memories or trace.recalls or any(call.recalls for call in trace.interactions):
            yield trace


def _under_way(turn: Turn, view: View) -> bool:
    """Whether a change of the layer is not proven yet, is closely watched, or was applied in this hour."""
    hours = timedelta(hours=turn.settings.safety.regression_monitoring_hours)
    close = max(hours, COALESCED)
    return any(
        proposal.state is not ProposalState.WATCHING or turn.now - proposal.state_since < close
        for proposal in open_proposals(view, turn.agent, Layer.MEMORY)
    )


def _rules(turn: Turn) -> MemoryRules:
    given = turn.settings.l1
    return MemoryRules(
        compaction_threshold=given.compaction_threshold,
        cluster_similarity=given.cluster_similarity,
        min_access_count=given.min_access_count,
    )
