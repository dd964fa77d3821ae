import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prx.domain.codec import encode
from prx.domain.records import (
    Assignment,
    Feedback,
    Interaction,
    Record,
    SessionEnd,
    SessionStart,
    ToolStatus,
    UnitSource,
)

AT = datetime(2026, 11, 30, 9, 30, tzinfo=UTC)
EXACT = {"type": "interaction", "record_id": "r", "session_id": "s", "at": "2026-11-30T09:30:00Z"}
FRIENDLY = [
    {
        "type": "session",
        "session": "s1",
        "user": "u1",
        "tenant": "acme",
        "channel": "web",
        "at": "2026-11-30T09:30:00Z",
    },
    {
        "type": "call",
        "session": "s1",
        "id": "c1",
        "at": "2026-11-30T09:30:00Z",
        "model": "m",
        "provider": "p",
        "intent": "refund",
        "messages": [{"role": "user", "content": "my refund?"}],
        "response": "It is on its way.",
        "tool_calls": [
            {"name": "orders", "arguments": {"id": 1}, "result": {"state": "paid"}, "latency_ms": 40},
            {"name": "mail", "result": "Error: no address"},
            {"name": "log", "status": "ok"},
        ],
        "ttft_ms": 500,
        "latency_ms": 900,
        "streamed": True,
        "tokens": {"input": 120, "output": 30, "cache_read": 100},
        "cost_usd": 0.002,
        "recalls": [{"memory_id": "m1", "score": 0.8, "relevant": True}],
    },
    {"type": "feedback", "session": "s1", "name": "thumb", "value": "up", "at": "2026-11-30T09:40:00Z"},
    {"type": "feedback", "record": "c1", "name": "relevance", "value": 0.75, "at": "2026-11-30T09:41:00Z"},
    {"type": "end", "session": "s1", "at": "2026-11-30T10:00:00Z"},
]


def lines(path: Path, *values: Any) -> Path:
    path.write_text("".join(json.dumps(v, ensure_ascii=False) + "\n" for v in values))
    return path


def test_the_friendly_lines_become_one_scored_session(tmp_path: Path, imported: Callable[..., Any]) -> None:
    got = imported(lines(tmp_path / "a.jsonl", *FRIENDLY))
    assert (got.result.dialect, got.result.malformed, got.result.untimed) == ("prx", 0, 0)
    (start,) = got.store.of(SessionStart)
    assert (start.session_id, start.unit, start.unit_source) == ("s1", "u1", UnitSource.USER)
    assert (start.tenant, start.channel, start.at) == ("acme", "web", AT)
    (call,) = got.store.of(Interaction)
    assert [t.status for t in call.tool_calls] == [ToolStatus.OK, ToolStatus.FAILED, ToolStatus.OK]
    assert (call.tokens.total, call.tokens.cache_read, call.cost_usd, call.intent) == (
        150,
        100,
        0.002,
        "refund",
    )
    (score,) = got.store.scores()
    assert score.dimensions == {
        "response_relevance": 0.75,
        "task_completion": pytest.approx(2 / 3),
        "response_latency": 1.0,
        "memory_precision": 1.0,
        "user_satisfaction": 1.0,
    }
    assert got.store.of(SessionEnd)[0].at == datetime(2026, 11, 30, 10, tzinfo=UTC)


def test_a_whole_conversation_in_the_chat_form_is_split_into_calls(
    tmp_path: Path, imported: Callable[..., Any]
) -> None:
    chat = [
        {"role": "system", "content": "be kind"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {}}],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "function": {"name": "one", "arguments": "{}"}},
                {"id": "b", "function": {"name": "two", "arguments": '{"x": 1}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "b", "content": '{"error": "gone"}'},
        {"role": "tool", "tool_call_id": "a", "content": "[1, 2]"},
        {"role": "assistant", "content": "done"},
    ]
    got = imported(lines(tmp_path / "a.jsonl", {"messages": chat, "outcome": 1, "user": "u"}))
    first, second = got.store.of(Interaction)
    assert [(t.name, t.status.value) for t in first.tool_calls] == [("one", "ok"), ("two", "failed")]
    assert first.messages[1].content == "look\n[image_url]"
    assert [m.role for m in second.messages] == ["system", "user", "assistant", "tool", "tool"]
    assert [t.name for t in second.messages[2].tool_calls] == ["one", "two"]
    assert second.response == "done"
    assert got.store.mean("task_completion") == 1.0


def test_a_conversation_may_name_its_agent_tenant_and_session(
    tmp_path: Path, imported: Callable[..., Any]
) -> None:
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    line = {"messages": chat, "session": "s9", "agent": "support", "tenant": "acme", "thumb": "down"}
    got = imported(lines(tmp_path / "a.jsonl", line))
    (start,) = got.store.of(SessionStart)
    assert (start.session_id, start.agent, start.tenant) == ("s9", "support", "acme")
    assert [(f.name, f.value, f.agent) for f in got.store.of(Feedback)] == [("thumb", 0.0, "support")]


def test_a_long_conversation_keeps_its_newest_messages_and_says_what_it_left_out(
    tmp_path: Path, imported: Callable[..., Any]
) -> None:
    chat = [{"role": "system", "content": "rules"}]
    for number in range(30):
        chat += [
            {"role": "user", "content": f"{number}" + "x" * 9_000},
            {"role": "assistant", "content": "ok"},
        ]
    got = imported(lines(tmp_path / "a.jsonl", {"messages": chat}))
    last = got.store.of(Interaction)[-1]
    assert sum(len(m.content) for m in last.messages) <= 100_000
    assert (last.messages[0].content, last.messages[-1].content[:2]) == ("rules", "29")
    assert last.extra["messages_dropped"] + len(last.messages) == len(chat) - 1


def test_one_huge_text_is_cut_and_marked(tmp_path: Path, imported: Callable[..., Any]) -> None:
    got = imported(lines(tmp_path / "a.jsonl", {"session": "s", "response": "x" * 60_000}))
    (call,) = got.store.of(Interaction)
    assert call.response == "x" * 50_000 + "... [10000 characters cut at import]"


def test_feedback_from_a_csv_reaches_sessions(tmp_path: Path, imported: Callable[..., Any]) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("session,name,value,at\ns1,thumb,down,2026-11-30T09:30:00Z\ns2,nps,9,\n,thumb,1,\n")
    got = imported(path)
    told = got.store.of(Feedback)
    assert [(f.target, f.name, f.value) for f in told] == [("s1", "thumb", 0.0), ("s2", "nps", "9")]
    assert told[0].at == AT
    assert [p.line for p in got.result.problems] == [4]


def test_a_correction_may_be_told_as_the_right_answer(tmp_path: Path, imported: Callable[..., Any]) -> None:
    call = {"session": "s", "response": "card lost", "at": "2026-11-30T09:30:00Z"}
    right = {"session": "s", "name": "correction", "value": "card_arrival", "at": "2026-11-30T09:31:00Z"}
    got = imported(lines(tmp_path / "a.jsonl", call, right))
    assert got.store.of(Feedback)[0].value == "card_arrival"
    assert got.store.mean("user_satisfaction") == 0.0


def test_an_exact_export_comes_back_as_it_was(tmp_path: Path, imported: Callable[..., Any]) -> None:
    records: list[Record] = [
        SessionStart(record_id="r1", at=AT, session_id="s", agent="support", tenant="t", user="u"),
        Interaction(record_id="r2", at=AT, session_id="s", prompts={"p": "sha256:1"}, response="é"),
        Feedback(record_id="r3", at=AT, target_kind="session", target="s", name="thumb", value=1.0),
        Assignment(record_id="r4", at=AT, experiment_id="e", unit="u", session_id="s", variant="treatment"),
        SessionEnd(record_id="r6", at=AT, session_id="s"),
    ]
    path = tmp_path / "export.jsonl"
    path.write_bytes(b"".join(encode(r) + b"\n" for r in records))
    assert list(imported(path).store.records.values()) == records


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        ({"type": "call", "response": "x"}, "needs `session`"),
        ({"type": "call", "session": "s", "response": "x", "at": "yesterday"}, "is no time"),
        ({"type": "feedback", "name": "thumb", "value": 1}, "neither `session`"),
        ({"type": "feedback", "session": "s", "name": "thumb", "value": 7}, "no number in 0..1"),
        ({"type": "conversation", "messages": [{"role": "user", "content": "x"}]}, "no message with role"),
        ({"type": "interaction", "record_id": "r", "session_id": "s"}, "no exact record"),
        (
            {"type": "interaction", "record_id": "r", "session_id": "s", "at": "2026-11-30T09:30:00"},
            "no zone",
        ),
        ({"type": "call", "session": "s", "response": "x", "latency_ms": -5}, "latency_ms is -5"),
        ({"type": "call", "session": "s", "response": "x", "ttft_ms": "abc"}, "ttft_ms is 'abc'"),
        ({"type": "call", "session": "s", "response": "x", "tokens": {"input": -3}}, "tokens.input is -3"),
        ({"type": "call", "session": "s", "response": "x", "cost_usd": -1}, "cost_usd is -1"),
        (EXACT | {"latency_ms": -5}, "latency_ms is below 0"),
        (EXACT | {"cost_usd": -0.1}, "cost_usd is below 0"),
        (EXACT | {"tokens": {"input": -5}}, "tokens.input is below 0"),
        (EXACT | {"ttft_ms": 1e300}, "ttft_ms is below 0 or larger"),
        (EXACT | {"tool_calls": [{"name": "orders", "latency_ms": -1}]}, "latency_ms of tool 'orders'"),
        (EXACT | {"record_id": ""}, "record_id is empty"),
        (EXACT | {"session_id": ""}, "session_id is empty"),
        (EXACT | {"at": "0001-01-01T00:00:00Z"}, "before 1990"),
        (
            {
                "type": "prompt_seen",
                "record_id": "p",
                "at": "2026-11-30T00:00:00Z",
                "agent": "default",
                "name": "router",
                "text": "another prompt",
            },
            "only taken from a running app",
        ),
        ({"type": "letter"}, "no item of the dialect prx"),
        ([1, 2], "no item of the dialect prx"),
    ],
)
def test_a_bad_line_is_named_and_the_good_ones_are_kept(
    tmp_path: Path, imported: Callable[..., Any], bad: Any, word: str
) -> None:
    got = imported(lines(tmp_path / "a.jsonl", FRIENDLY[1], bad, FRIENDLY[2]))
    assert (got.result.interactions, got.result.feedback, got.result.malformed) == (1, 1, 1)
    (problem,) = got.result.problems
    assert problem.line == 2
    assert word in problem.why


def test_a_line_without_a_time_takes_the_imports_and_says_so(
    tmp_path: Path, imported: Callable[..., Any]
) -> None:
    got = imported(lines(tmp_path / "a.jsonl", {"session": "s", "response": "x"}))
    assert (got.result.untimed, got.store.of(Interaction)[0].time_known) == (1, False)


def test_what_a_file_says_is_never_run(tmp_path: Path, imported: Callable[..., Any]) -> None:
    trap = tmp_path / "ran"
    code = f"__import__('pathlib').Path({str(trap)!r}).touch()"
    case = {"id": "x", "question": [[{"role": "user", "content": code}]], "ground_truth": [[code]]}
    got = imported(lines(tmp_path / "a.jsonl", case))
    assert msgspec.json.encode(got.store.of(Interaction)[0])
    assert not trap.exists()
