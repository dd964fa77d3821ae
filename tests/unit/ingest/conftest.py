"""A record store that only remembers, and where the logs are."""

import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from prx.domain.records import Feedback, Interaction, Record, SessionEnd, SessionStart, Trace
from prx.domain.scores import SessionScore
from prx.fitness.rules import FitnessRules
from prx.fitness.session import score_session
from prx.ingest.importer import ImportResult, import_file

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "tests" / "data" / "logs"
DEV = ROOT.parent / "shared" / "data" / "dev"
NOW = datetime(2026, 12, 1, 8, tzinfo=UTC)
R = TypeVar("R")


@dataclass
class Remembered:
    """Appends like a record store: what has a known record id is not new."""

    records: dict[str, Record] = field(default_factory=dict)

    def append(self, batch: Sequence[Record]) -> int:
        new = [r for r in batch if r.record_id not in self.records]
        self.records.update((r.record_id, r) for r in new)
        return len(new)

    def of(self, kind: type[R]) -> list[R]:
        return [r for r in self.records.values() if isinstance(r, kind)]

    def traces(self) -> Iterator[Trace]:
        calls, feedback = defaultdict(list), defaultdict(list)
        session_of = {start.session_id: start.session_id for start in self.of(SessionStart)}
        for call in self.of(Interaction):
            calls[call.session_id].append(call)
            session_of[call.record_id] = call.session_id
        for told in self.of(Feedback):
            feedback[session_of[told.target]].append(told)
        ends = {end.session_id: end.at for end in self.of(SessionEnd)}
        for start in self.of(SessionStart):
            yield Trace(
                start=start,
                interactions=tuple(sorted(calls[start.session_id], key=lambda r: r.at)),
                feedback=tuple(feedback[start.session_id]),
                ended_at=ends.get(start.session_id),
            )

    def scores(self) -> list[SessionScore]:
        return [score_session(trace, rules=FitnessRules(), now=NOW) for trace in self.traces()]

    def mean(self, dimension: str) -> float:
        values = [s.dimensions[dimension] for s in self.scores() if dimension in s.dimensions]
        return sum(values) / len(values)


@dataclass
class Imported:
    store: Remembered
    result: ImportResult


@pytest.fixture
def imported() -> Callable[[Path], Imported]:
    """Imports a file into a fresh store."""

    def run(path: Path) -> Imported:
        store = Remembered()
        return Imported(store, import_file(path, now=NOW, append=store.append))

    return run


@pytest.fixture
def log_file() -> Callable[[str, str], Path]:
    """Path of a log: a committed sample, or the full file beside the repository."""

    def find(where: str, name: str) -> Path:
        path = (SAMPLES if where == "sample" else DEV) / name
        if not path.exists():
            pytest.skip(f"{path} is not on this machine: the full logs are kept beside the repository")
        return path

    return find


@pytest.fixture
def raw_lines() -> Callable[[Path], list[Any]]:
    """The decoded lines of a log, read without the code under test."""

    def read(path: Path) -> list[Any]:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
        return [json.loads(line) for line in text.split("\n") if line]

    return read
