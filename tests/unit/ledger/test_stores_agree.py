"""The two ledgers give the same answers to the same random work."""

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_samples import NOW, proposal, seeded_ids, version

from prx.domain.answers import Passed
from prx.domain.errors import EvolutionError
from prx.domain.events import Control, Event, EventName
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.versions import PromptSet, Version, VersionStatus
from prx.ledger import Ledger, open_memory, open_sqlite, verify_chain

NAMES = st.sampled_from(["p1", "p2", "p3"])
AGENTS = st.sampled_from(["a", "b"])
LABELS = st.sampled_from(["v1.0", "v1.1", "v1.2"])
OPERATIONS = st.one_of(
    st.tuples(st.just("put"), NAMES, AGENTS, st.sampled_from([0.1, 0.9])),
    st.tuples(st.just("move"), NAMES, st.sampled_from(sorted(ProposalState))),
    st.tuples(st.just("version"), AGENTS, LABELS),
    st.tuples(st.just("status"), AGENTS, LABELS, st.sampled_from(sorted(VersionStatus))),
    st.tuples(st.just("point"), AGENTS, LABELS, st.sampled_from([None, 1, 2, 3])),
    st.tuples(st.just("control"), AGENTS, st.booleans()),
    st.tuples(st.just("event"), AGENTS),
    st.tuples(st.just("erase"), LABELS),
    st.tuples(st.just("fail")),
)


def run(tx: Any, operation: tuple[Any, ...]) -> Any:
    verb, *args = operation
    if verb == "put":
        name, agent, risk = args
        stored = tx.maybe(Proposal, name)
        tx.put(
            proposal(name, agent=agent, risk=risk)
            if stored is None
            else msgspec.structs.replace(stored, risk=risk)
        )
    elif verb == "move":
        return tx.move(tx.get(Proposal, args[0]), ProposalState(args[1]), why="w").state
    elif verb == "version":
        tx.add_version(version(tx, args[1], args[0]))
    elif verb == "status":
        tx.put(msgspec.structs.replace(tx.version(args[0], args[1]), status=VersionStatus(args[2])))
    elif verb == "point":
        return tx.point(args[0], args[1], expected=args[2])
    elif verb == "control":
        tx.put(Control(agent=args[0], paused=args[1]))
    elif verb == "event":
        return tx.emit(Event(event_id="e", at=tx.now, agent=args[0], name=EventName.ALERT, summary="s"))
    elif verb == "erase":
        tx.erase_part(tx.put_part(PromptSet(texts={"system": f"You help, {args[0]}."})))
    elif verb == "fail":
        raise EvolutionError("on purpose")
    return None


def outcome(ledger: Ledger, step: int, batch: list[tuple[Any, ...]]) -> Any:
    try:
        with ledger.transaction(now=NOW + timedelta(seconds=step), actor="engine") as tx:
            return [run(tx, operation) for operation in batch]
    except EvolutionError as error:
        return type(error).__name__, str(error)


def content(ledger: Ledger) -> Any:
    with ledger.view() as view:
        found = [
            view.find(kind, newest_first=back)
            for kind in (Proposal, Version, Control)
            for back in (False, True)
        ]
        by_state = [view.find(Proposal, state=state, agent="a", limit=2) for state in ProposalState]
        parts = []
        for kept in view.find(Version):
            try:
                parts.append(view.part(kept.manifest.prompt))
            except EvolutionError as error:
                parts.append(str(error))
        pointers = [view.pointer(agent) for agent in ("a", "b")]
        return found, by_state, parts, pointers, view.agents(), view.events(), view.audit_rows()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batches=st.lists(st.lists(OPERATIONS, min_size=1, max_size=4), max_size=12))
def test_memory_and_sqlite_agree_on_random_work_and_on_its_errors(
    batches: list[list[tuple[Any, ...]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledgers = [open_memory(seeded_ids(3)), open_sqlite(Path(folder) / "ledger.sqlite", seeded_ids(3))]
        for step, batch in enumerate(batches):
            first, second = (outcome(ledger, step, batch) for ledger in ledgers)
            assert first == second
        first, second = map(content, ledgers)
        assert first == second
        assert isinstance(verify_chain(first[-1]), Passed)
        for ledger in ledgers:
            ledger.close()
