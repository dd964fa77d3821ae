import gzip
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prx.domain.errors import InvalidInput
from prx.domain.records import Interaction, Record, SessionStart
from prx.ingest.importer import Progress, import_file
from prx.ingest.sniff import DIALECTS

NOW = datetime(2026, 12, 1, 8, tzinfo=UTC)
LOGS = Path(__file__).parents[2] / "data" / "logs"
NAMES = sorted(p.name for p in LOGS.iterdir() if p.suffix != ".md")


class Store:
    """Remembers records by id, and the sizes of the batches that came."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.batches: list[int] = []

    def append(self, batch: Sequence[Record]) -> int:
        before = len(self.records)
        self.batches.append(len(batch))
        for record in batch:
            self.records.setdefault(record.record_id, record)
        return len(self.records) - before


@pytest.mark.parametrize("name", NAMES)
def test_the_same_file_twice_changes_nothing(name: str) -> None:
    store = Store()
    first = import_file(LOGS / name, now=NOW, append=store.append)
    kept = dict(store.records)
    again = import_file(LOGS / name, now=NOW + timedelta(days=3), append=store.append)
    assert first.new == first.records == len(kept) > 0
    assert (again.new, again.records) == (0, first.records)
    assert store.records == kept


@pytest.mark.parametrize("name", NAMES)
def test_gzip_and_order_of_lines_do_not_change_ids(name: str, tmp_path: Path) -> None:
    text = (LOGS / name).read_bytes()
    if name.endswith(".jsonl"):
        text = b"\n".join(reversed(text.splitlines()))
    (tmp_path / "other.gz").write_bytes(gzip.compress(text))
    one, other = Store(), Store()
    import_file(LOGS / name, now=NOW, append=one.append)
    import_file(tmp_path / "other.gz", now=NOW, append=other.append)
    assert set(one.records) == set(other.records)


def test_another_agent_gets_records_of_its_own() -> None:
    store = Store()
    for agent in ("default", "support"):
        import_file(LOGS / "taubench_airline.jsonl", now=NOW, append=store.append, agent=agent)
    starts = [r for r in store.records.values() if isinstance(r, SessionStart)]
    assert sorted(s.agent for s in starts) == ["default"] * 4 + ["support"] * 4
    assert len({s.session_id for s in starts}) == 8


@pytest.mark.parametrize("name", NAMES)
def test_every_imported_record_survives_storing(name: str) -> None:
    store = Store()
    import_file(LOGS / name, now=NOW, append=store.append)
    for record in store.records.values():
        assert msgspec.json.decode(msgspec.json.encode(record), type=Record) == record  # type: ignore[arg-type]


def test_a_batch_never_holds_more_than_500_records(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"session": f"s{n}", "response": "x"}) + "\n" for n in range(1200)))
    store, seen = Store(), list[Progress]()
    result = import_file(path, now=NOW, append=store.append, progress=seen.append)
    assert store.batches == [500, 500, 500, 500, 400]
    assert [p.records for p in seen] == [500, 1000, 1500, 2000, 2400]
    assert (result.sessions, result.interactions) == (1200, 1200)


def test_malformed_lines_are_counted_and_the_first_ones_named(tmp_path: Path) -> None:
    good = (LOGS / "taubench_airline.jsonl").read_text()
    path = tmp_path / "a.jsonl"
    path.write_text(
        good + "not json\n" * 50 + '{"traj": [], "reward": 1}\n{"traj": [{}], "reward": "high"}\n' + '{"tr'
    )
    result = import_file(path, now=NOW, append=Store().append)
    assert (result.sessions, result.malformed) == (4, 53)
    assert [p.line for p in result.problems] == list(range(5, 25))


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "holds no records"),
        (b"\n\n", "holds no records"),
        (b"just text\n", "line 1: the line is no JSON"),
        (b'{"a": 1}\n', "no known dialect"),
        (gzip.compress(b'{"session": "s", "response": "x"}\n' * 99, mtime=0)[:20], "compressed data"),
        (b'{"session": "s", "response": "\xff"}\n', "not UTF-8"),
    ],
)
def test_a_file_with_nothing_usable_is_refused_with_the_first_reason(
    tmp_path: Path, content: bytes, word: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=word):
        import_file(path, now=NOW, append=Store().append)


def test_an_unknown_dialect_is_refused_and_the_known_ones_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="taubench, taubench-dialogs, bfcl"):
        import_file(tmp_path / "a", now=NOW, append=Store().append, dialect="klingon")


def test_a_chosen_dialect_wins_over_what_the_file_looks_like() -> None:
    with pytest.raises(InvalidInput, match="no item of the dialect langfuse"):
        import_file(LOGS / "taubench_airline.jsonl", now=NOW, append=Store().append, dialect="langfuse")


def test_a_store_that_fails_stops_the_import_with_its_own_error(tmp_path: Path) -> None:
    def full(batch: Sequence[Record]) -> int:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        import_file(LOGS / "taubench_airline.jsonl", now=NOW, append=full)


WORDS = """
traj reward task_id trial info task user_id role content tool_calls function name arguments id
tool_call_id messages_display question ground_truth trajectory history action observation response
execution_time model_stats tokens_sent exit_status submission replay_config trace observations
sessionId type startTime endTime input output usageDetails costDetails scores value observationId
metadata attributes level parentObservationId completionStartTime mistake_agent mistake_step
mistake_reason is_correct system_prompt eval samples events event timestamp completed usage error
target attachments decision_type memory_id trace_id outcome session messages at tokens recalls thumb
record ref latency_ms result status parts choices message record_id session_id target_kind
"""
KEYS = st.sampled_from(WORDS.split())
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=True)
    | st.text(max_size=8)
    | st.sampled_from(
        [
            "assistant",
            "user",
            "tool",
            "GENERATION",
            "TOOL",
            "model",
            "thumb",
            "call",
            "session",
            "feedback",
            "interaction",
            "session_start",
            "2026-05-01T00:00:00Z",
            "0001-01-01T00:00:00+14:00",
            "user: a\nassistant: b",
            "[[[",
            '{"attributes": {"tool.name": 1}}',
            "\ud800",
            "C",
            "nan",
        ]
    )
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=8),
    max_leaves=25,
)
SEEDS: dict[str, dict[str, Any]] = {
    "taubench": {"traj": [{"role": "assistant", "content": "x"}], "reward": 1},
    "taubench-dialogs": {"messages_display": "user: a\nassistant: b"},
    "bfcl": {"question": [[{"role": "user", "content": "x"}]], "ground_truth": [["f(1)"]]},
    "sweagent": {"trajectory": [{"action": "ls"}]},
    "langfuse": {"trace": {"id": "t"}, "observations": [{"id": "o", "type": "GENERATION", "input": "x"}]},
    "whowhen": {"history": [{"role": "assistant", "content": "x"}], "mistake_agent": "a"},
    "inspect": {"eval": {}, "samples": [{"events": [{"event": "model"}]}]},
    "openprx": {"trace_id": "t", "timestamp": "2026-05-01T00:00:00Z", "decision_type": "other"},
    "prx": {"type": "call", "session": "s", "response": "x"},
}


def mutated(seed: Any, draw: Callable[[Any], Any]) -> Any:
    """The seed with parts of it, at any depth, replaced by or enriched with arbitrary values."""
    if isinstance(seed, dict):
        changed = {k: mutated(v, draw) if draw(st.integers(0, 5)) else draw(VALUES) for k, v in seed.items()}
        return {**draw(st.dictionaries(KEYS, VALUES, max_size=3)), **changed}
    if isinstance(seed, list):
        return [mutated(v, draw) for v in seed] + draw(st.lists(VALUES, max_size=2))
    return seed if draw(st.booleans()) else draw(VALUES)


@pytest.mark.parametrize("dialect", [d.name for d in DIALECTS])
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(data=st.data())
def test_no_json_breaks_a_dialect_and_its_ids_stay_the_same(
    tmp_path_factory: pytest.TempPathFactory, dialect: str, data: st.DataObject
) -> None:
    value = mutated(SEEDS[dialect], data.draw)
    path = tmp_path_factory.mktemp("any") / "a.jsonl"
    path.write_text(json.dumps(value) + "\n")
    one, two = Store(), Store()
    for store, now in ((one, NOW), (two, NOW + timedelta(hours=1))):
        try:
            import_file(path, now=now, append=store.append, dialect=dialect)
        except InvalidInput:
            continue
    assert list(one.records) == list(two.records)
    for record in one.records.values():
        assert msgspec.json.decode(msgspec.json.encode(record), type=Record) == record  # type: ignore[arg-type]
        assert record.at.tzinfo is not None
        assert not isinstance(record, Interaction) or sum(len(m.content) for m in record.messages) < 200_000


def test_the_seeds_of_that_test_are_real_items() -> None:
    for dialect in DIALECTS:
        assert dialect.fits(SEEDS[dialect.name])
