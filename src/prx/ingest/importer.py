"""`import_file`: a file of any known dialect into the record store, in batches."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from prx.domain.errors import InvalidInput
from prx.domain.records import DEFAULT_AGENT, Feedback, Interaction, Record, SessionStart
from prx.ingest.drafting import Source
from prx.ingest.plain import Misfit
from prx.ingest.reader import Item, Problem, read_items
from prx.ingest.sniff import DIALECTS, Dialect, dialect_named, sniff

BATCH = 500
PROBLEMS_KEPT = 20
_SESSIONS_REMEMBERED = 200_000
_SNIFFED_AT_MOST = 100


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an import is."""

    items: int
    records: int


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What became of a file. `new`: records that were not stored before, so 0 for a file imported twice.

    `untimed`: calls that took the import's time. `malformed` counts every problem, `problems` keeps the
    first ones with their line. `tool_calls` counts by status. A session that comes back after many
    thousand others in one file may be counted again.
    """

    path: str
    dialect: str
    items: int
    records: int
    new: int
    sessions: int
    interactions: int
    feedback: int
    tool_calls: dict[str, int]
    untimed: int
    malformed: int
    problems: tuple[Problem, ...]


def import_file(
    path: Path,
    *,
    now: datetime,
    append: Callable[[Sequence[Record]], int],
    agent: str = DEFAULT_AGENT,
    dialect: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> ImportResult:
    """Read `path` and hand its records to `append` in batches; memory does not grow with the file.

    `append` stores a batch and returns how many of it were new. Without `dialect` the file's first known
    item decides. Bad lines are counted and named, never fatal; nothing in the file is executed.
    Raises: InvalidInput when the file cannot be opened, the dialect's name is unknown, or nothing in the
    file could be read (the message names the first problem).
    """
    chosen = dialect_named(dialect) if dialect is not None else None
    tally = _Tally()
    batch: list[Record] = []
    for record in _records(path, Source("", agent, now), chosen, tally):
        batch.append(record)
        if len(batch) >= BATCH:
            tally.new += append(batch)
            batch = []
            if progress is not None:
                progress(Progress(tally.items, tally.records))
    if batch:
        tally.new += append(batch)
    if progress is not None:
        progress(Progress(tally.items, tally.records))
    if tally.records == 0:
        raise InvalidInput(_nothing(path, tally))
    return tally.result(path)


@dataclass(slots=True)
class _Tally:
    dialect: str = ""
    items: int = 0
    records: int = 0
    new: int = 0
    sessions: int = 0
    interactions: int = 0
    feedback: int = 0
    untimed: int = 0
    malformed: int = 0
    tool_calls: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)
    seen: "OrderedDict[str, None]" = field(default_factory=OrderedDict)

    def bad(self, problem: Problem) -> None:
        self.malformed += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(problem)

    def is_repeat(self, record: Record) -> bool:
        """True for the start of a session that this import has started already."""
        if not isinstance(record, SessionStart):
            return False
        if record.session_id in self.seen:
            self.seen.move_to_end(record.session_id)
            return True
        self.seen[record.session_id] = None
        if len(self.seen) > _SESSIONS_REMEMBERED:
            self.seen.popitem(last=False)
        return False

    def count(self, record: Record) -> None:
        self.records += 1
        if isinstance(record, SessionStart):
            self.sessions += 1
        elif isinstance(record, Feedback):
            self.feedback += 1
        elif isinstance(record, Interaction):
            self.interactions += 1
            self.untimed += not record.time_known
            self.tool_calls.update(tool.status.value for tool in record.tool_calls)

    def result(self, path: Path) -> ImportResult:
        return ImportResult(
            path=str(path),
            dialect=self.dialect,
            items=self.items,
            records=self.records,
            new=self.new,
            sessions=self.sessions,
            interactions=self.interactions,
            feedback=self.feedback,
            tool_calls=dict(self.tool_calls),
            untimed=self.untimed,
            malformed=self.malformed,
            problems=tuple(self.problems),
        )


def _records(path: Path, plain: Source, chosen: Dialect | None, tally: _Tally) -> Iterator[Record]:
    for entry in read_items(path):
        if isinstance(entry, Problem):
            tally.bad(entry)
            continue
        tally.items += 1
        if chosen is None and tally.items <= _SNIFFED_AT_MOST:
            chosen = sniff(entry.value)
        if chosen is None:
            tally.bad(Problem(entry.line, "no known dialect has this shape"))
            continue
        tally.dialect = chosen.name
        source = Source(chosen.name, plain.agent, plain.now)
        yield from _of_item(entry, chosen, source, tally)


def _of_item(entry: Item, dialect: Dialect, source: Source, tally: _Tally) -> Iterator[Record]:
    """Records of one item, all or none: half a session would look like a whole one."""
    if not dialect.fits(entry.value):
        tally.bad(Problem(entry.line, f"this is no item of the dialect {dialect.name}"))
        return
    try:
        found = list(dialect.read(entry.value, source))
    except Misfit as error:
        tally.bad(Problem(entry.line, str(error)))
        return
    for record in found:
        if not tally.is_repeat(record):
            tally.count(record)
            yield record


def _nothing(path: Path, tally: _Tally) -> str:
    if not tally.malformed:
        return f"{path} holds no records; check that it is the file that you meant"
    first = tally.problems[0]
    names = ", ".join(d.name for d in DIALECTS)
    where = f"line {first.line}: " if first.line else ""
    return (
        f"nothing in {path} could be imported, {tally.malformed} problems, the first: {where}{first.why}; "
        f"known dialects are {names} (give one with --dialect)"
    )
