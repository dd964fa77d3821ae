"""`prx erase`: everything recorded of a user goes, wherever it was copied to, and the proof stays."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import msgspec

from prx.domain.erasure import Erasure, Removed, Subject
from prx.domain.errors import StoreError
from prx.domain.owntexts import ids_of, shared_names, system_texts, texts_of
from prx.domain.spans import Said
from prx.ledger.port import Ledger
from prx.memory import MemoryStore
from prx.records.port import RecordStore
from prx.release.erased import Held
from prx.release.erasing import LedgerErased, copied, erase_from_ledger
from prx.wiring.erasures import Followed, remove_here

PROOF = "erasure.done"
_SEVERAL = 2
"""How many other users must have said a span too, so that it is nobody's own."""
_PAGE = 1000
ForgetPrompts = Callable[[Callable[[str], bool], bool], int]


@dataclass(frozen=True, slots=True)
class Places:
    """Where recorded texts are kept, and what is done to the files of learned prompts (the check of a text,
    and whether it is a rehearsal; returns how many were removed)."""

    home: Path
    ledger: Ledger
    records: RecordStore
    memory: MemoryStore | None
    forget_prompts: ForgetPrompts


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """What an erasure removed, or would remove; `found` False when nothing of the subject is stored.

    `memories` entries with what was derived from them, `spooled` records in segments of this machine,
    `prompts` stored defaults and learned templates that held the text. `proof` is SEQ:HASH of the audit row.
    `before` is when the subject was erased last. `left` says what this run could not reach.
    """

    subject: str
    found: bool
    dry_run: bool
    sessions: int = 0
    records: int = 0
    scores: int = 0
    memories: int = 0
    spooled: int = 0
    prompts: int = 0
    ledger: LedgerErased = field(default_factory=LedgerErased)
    proof: str | None = None
    before: datetime | None = None
    left: tuple[str, ...] = ()


class _Rehearsed(Exception):
    """Undoes the transaction of a dry run; no error."""


def erase(places: Places, subject: Subject, *, actor: str, now: datetime, dry_run: bool) -> ErasureReport:
    """Remove everything recorded of the subject, and everything copied from it.

    First tombstones, so that nothing comes back from a spool; then the ledger, while the texts can still be
    compared; then records, memory, spool and files. Doing it again finishes what a crash stopped. Versions
    that hold erased text are sealed, and a clean one takes the place of what an agent serves.
    Raises: StoreError.
    """
    store = places.records.erasures
    sessions = store.sessions_of(subject)
    digest = store.digest(subject)
    earlier = [one for one in store.erasures() if one.digest == digest]
    done = max((one.at for one in earlier if one.done), default=None)
    if not sessions and all(one.done for one in earlier):
        return ErasureReport(subject.kind, False, dry_run, before=done)
    held = _held(places, sessions)
    if dry_run:
        return replace(_rehearsed(places, held, sessions, now, actor), subject=subject.kind, before=done)
    made = _condemn(places.records, subject, sessions, now)
    if made.late:
        held = _held(places, made.sessions)
    with places.ledger.transaction(now=now, actor=actor) as tx:
        ledger = erase_from_ledger(tx, held)
    prompts = _blank_prompts(places.records, held) + places.forget_prompts(held.has, False)
    removed = store.carry_out()
    here = remove_here(places.home, places.records, places.memory, made.erasure.number)
    left = (*_copies(places.home), *_scrub(places))
    report = _report(removed, here, ledger, prompts)
    with places.ledger.transaction(now=now, actor=actor) as tx:
        row = tx.audit(PROOF, digest, _proof(subject, report))
    store.finish(digest)
    proof = f"{row.seq}:{row.hash}"
    return replace(report, subject=subject.kind, proof=proof, before=done, left=left)


@dataclass(frozen=True, slots=True)
class _Condemned:
    erasure: Erasure
    sessions: tuple[str, ...]
    late: bool


def _condemn(records: RecordStore, subject: Subject, sessions: tuple[str, ...], now: datetime) -> _Condemned:
    """Bury the subject and its sessions, those that began meanwhile too."""
    erasure = records.erasures.condemn(subject, sessions, now)
    every = dict.fromkeys((*sessions, *records.erasures.sessions_of(subject)))
    late = tuple(one for one in every if one not in sessions)
    if late:
        erasure = records.erasures.condemn(subject, late, now)
    return _Condemned(erasure, tuple(every), bool(late))


def _held(places: Places, sessions: Sequence[str]) -> Held:
    """What to look for: what these sessions said that stands in the ledger and is nobody else's."""
    ids, shared = set[str](), set[str]()
    for session_id in sessions:
        if trace := places.records.trace(session_id):
            ids.update(ids_of(trace))
            shared.update(shared_names(trace))
    said = Said(frozenset(shared))
    for session_id in sessions:
        if trace := places.records.trace(session_id):
            for text, at in texts_of(trace):
                said.add(text, at)
    with places.ledger.view() as view:
        found = copied(view, said, _offered(places.records, sessions))
    own = said.only(found)
    return Held(own, found - _of_several(places.records, own, frozenset(sessions)), frozenset(ids))


def _offered(records: RecordStore, sessions: Sequence[str]) -> Iterator[tuple[str, datetime]]:
    """Texts of the app's own: defaults of prompts, and the system prompts of these sessions."""
    after = 0
    while True:
        cursor, seen = records.prompts_seen(after=after, limit=_PAGE)
        if not seen:
            break
        yield from ((prompt.text, prompt.at) for prompt in seen)
        after = cursor
    for session_id in sessions:
        if trace := records.trace(session_id):
            yield from system_texts(trace)


def _of_several(records: RecordStore, own: Said, sessions: frozenset[str]) -> frozenset[str]:
    """Spans that other users said as well."""
    if not own:
        return frozenset()
    others: dict[str, set[str]] = defaultdict(set)
    for trace in records.traces():
        if trace.start.session_id not in sessions:
            who = trace.start.user or trace.start.session_id
            for text, _ in texts_of(trace):
                for span in own.within(text):
                    others[span].add(who)
    return frozenset(span for span, who in others.items() if len(who) >= _SEVERAL)


def _blank_prompts(records: RecordStore, held: Held) -> int:
    blanked, after = 0, 0
    while True:
        cursor, seen = records.prompts_seen(after=after, limit=_PAGE)
        if not seen:
            return blanked
        if ids := [one.record_id for one in seen if held.has(one.text)]:
            blanked += records.erasures.blank_prompts(ids)
        after = cursor


def _rehearsed(
    places: Places, held: Held, sessions: Sequence[str], now: datetime, actor: str
) -> ErasureReport:
    """What an erasure would do; whatever it writes to find out is undone."""
    ledger = LedgerErased()
    try:
        with places.ledger.transaction(now=now, actor=actor) as tx:
            ledger = erase_from_ledger(tx, held)
            raise _Rehearsed
    except _Rehearsed:
        pass
    traces = [trace for trace in map(places.records.trace, sessions) if trace is not None]
    written = places.memory.sessions() if places.memory else ()
    counted = [
        1 + len([*t.interactions, *t.feedback, *t.assignments, *t.exposures, *t.memories, *t.recalls])
        for t in traces
    ]
    return ErasureReport(
        subject="",
        found=True,
        dry_run=True,
        sessions=len(sessions),
        records=sum(counted),
        memories=sum(bool(one.record_id) and one.session_id in set(sessions) for one in written),
        prompts=places.forget_prompts(held.has, True),
        ledger=ledger,
    )


def _report(removed: Removed, here: Followed, ledger: LedgerErased, prompts: int) -> ErasureReport:
    return ErasureReport(
        subject="",
        found=True,
        dry_run=False,
        sessions=removed.sessions,
        records=removed.records,
        scores=removed.scores,
        memories=len(here.memories),
        spooled=here.spooled,
        prompts=prompts,
        ledger=ledger,
    )


def _proof(subject: Subject, report: ErasureReport) -> dict[str, object]:
    """Numbers and versions only: nothing by which the subject could be named."""
    return {
        "what": subject.kind,
        "sessions": report.sessions,
        "records": report.records,
        "memories": report.memories,
        "prompts": report.prompts,
        "ledger": {name: value for name, value in msgspec.to_builtins(report.ledger).items() if value},
    }


def _copies(home: Path) -> list[str]:
    """Delete the copies that migrations kept; name the folders that a restore set aside."""
    for path in home.glob("**/*.sqlite.schema-*"):
        path.unlink(missing_ok=True)
    aside = sorted(home.parent.glob(f"{home.name}.before-restore-*"))
    return [
        f"{folder} was set aside by `prx restore` and holds an older state; delete it" for folder in aside
    ]


def _scrub(places: Places) -> list[str]:
    """Overwrite what deleted rows left in the files of every store; what could not be done."""
    stores = (
        places.ledger.scrub,
        places.records.erasures.scrub,
        *((places.memory.scrub,) if places.memory else ()),
    )
    told = []
    for scrub in stores:
        try:
            told.append(scrub())
        except StoreError as error:
            told.append(f"the text is deleted, and pages of the file may still hold it: {error}")
    return [text for text in told if text]
