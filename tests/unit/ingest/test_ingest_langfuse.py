import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from prx.domain.records import Feedback, Interaction, SessionStart

FILES = [("sample", "langfuse_traces.jsonl"), ("dev", "langfuse_framework_traces_dev.jsonl.gz")]


def leaf_generations(line: dict[str, Any]) -> list[dict[str, Any]]:
    """Generations with any content below which no other generation hangs, by walking down from each."""
    spans = line["observations"]
    children: dict[str, list[dict[str, Any]]] = {}
    for span in spans:
        children.setdefault(span.get("parentObservationId"), []).append(span)

    def holds_generation(span: dict[str, Any]) -> bool:
        return any(speaks(c) or holds_generation(c) for c in children.get(span["id"], []))

    def speaks(span: dict[str, Any]) -> bool:
        has = span.get("input") or span.get("output") or span.get("usageDetails")
        return span["type"] == "GENERATION" and bool(has)

    return [s for s in spans if speaks(s) and not holds_generation(s)]


@pytest.mark.parametrize(("where", "name"), FILES)
def test_leaf_generations_are_the_calls_with_their_tokens_cost_and_duration(
    where: str,
    name: str,
    log_file: Callable[..., Path],
    imported: Callable[..., Any],
    raw_lines: Callable[[Path], list[Any]],
) -> None:
    path = log_file(where, name)
    leaves = [leaf for line in raw_lines(path) for leaf in leaf_generations(line)]
    got = imported(path)
    calls = got.store.of(Interaction)
    assert (got.result.dialect, got.result.untimed) == ("langfuse", 0)
    assert len(calls) == len(leaves)
    assert sum(c.tokens.input or 0 for c in calls) == sum(s["usageDetails"].get("input", 0) for s in leaves)
    assert sum(c.tokens.output or 0 for c in calls) == sum(s["usageDetails"].get("output", 0) for s in leaves)
    cost = sum(s["costDetails"].get("total", 0) for s in leaves)
    assert sum(c.cost_usd or 0 for c in calls) == pytest.approx(cost)
    by_hand = [
        (datetime.fromisoformat(s["endTime"]) - datetime.fromisoformat(s["startTime"])).total_seconds() * 1000
        for s in leaves
    ]
    assert sorted(c.latency_ms or 0 for c in calls) == pytest.approx(sorted(by_hand))
    assert sorted(c.at for c in calls) == sorted(datetime.fromisoformat(s["startTime"]) for s in leaves)


@pytest.mark.parametrize(("where", "name"), FILES)
def test_scores_keep_their_names_values_and_times(
    where: str,
    name: str,
    log_file: Callable[..., Path],
    imported: Callable[..., Any],
    raw_lines: Callable[[Path], list[Any]],
) -> None:
    path = log_file(where, name)
    scores = [s for line in raw_lines(path) for s in line["trace"]["scores"]]
    told = imported(path).store.of(Feedback)
    assert sorted((f.name, f.value, f.at) for f in told) == sorted(
        (s["name"], float(s["value"]), datetime.fromisoformat(s["timestamp"])) for s in scores
    )


def test_the_ten_traces_hold_20_calls_and_11_tool_calls_of_which_3_are_known(
    log_file: Callable[..., Path], imported: Callable[..., Any]
) -> None:
    got = imported(log_file(*FILES[1]))
    assert (got.result.sessions, got.result.interactions, got.result.feedback) == (10, 20, 13)
    assert got.result.tool_calls == {"ok": 3, "unknown": 8}
    names = sorted(t.name for c in got.store.of(Interaction) for t in c.tool_calls)
    assert names == sorted(
        [
            "ByeTool",
            "HelloTool",
            "Web-Search",
            "duckduckgo_search",
            "final_result",
            "getWeather",
            "get_dad_joke_suggestion",
            "get_one_liner_suggestion",
            "get_pun_suggestion",
            "get_weather",
            "say_hello",
        ]
    )
    assert {s.user for s in got.store.of(SessionStart)} == {None, "demo-user", "user_123"}


def observation(name: str, second: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": name,
        "type": "GENERATION",
        "name": name,
        "startTime": f"2026-05-01T00:00:{second:02d}Z",
        "endTime": f"2026-05-01T00:00:{second + 2:02d}Z",
        "input": [{"role": "user", "content": "hi"}],
        "output": {"role": "assistant", "content": name},
        **fields,
    }


def trace(name: str, *observations: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "trace": {"id": name, "timestamp": "2026-05-01T00:00:00Z", **fields},
        "observations": observations,
    }


def test_traces_of_one_session_are_one_session_and_a_traces_score_goes_to_its_last_call(
    tmp_path: Path, imported: Callable[..., Any]
) -> None:
    thumb = {"id": "s1", "name": "user-feedback", "value": 1, "timestamp": "2026-05-01T01:00:00Z"}
    lines = [
        trace("t1", observation("a", 1), observation("b", 5), sessionId="chat", scores=[thumb]),
        trace("t2", observation("c", 9), sessionId="chat", environment="staging"),
    ]
    path = tmp_path / "traces.json"
    path.write_text(json.dumps(lines))
    got = imported(path)
    assert (got.result.sessions, got.result.interactions) == (1, 3)
    (feedback,) = got.store.of(Feedback)
    answers = {c.record_id: c.response for c in got.store.of(Interaction)}
    assert (feedback.name, feedback.value, answers[feedback.target]) == ("thumb", 1.0, "b")


def test_first_token_streaming_errors_and_failed_tools_are_read(
    tmp_path: Path, imported: Callable[..., Any]
) -> None:
    streamed = observation("a", 1, completionStartTime="2026-05-01T00:00:01.250Z")
    broken = observation("b", 5, level="ERROR", statusMessage="429 rate limit", output=None)
    tool = observation(
        "grep",
        4,
        type="TOOL",
        level="ERROR",
        statusMessage="no such file",
        output=None,
        parentObservationId="a",
    )
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(trace("t", streamed, tool, broken)) + "\n")
    got = imported(path)
    first, second = got.store.of(Interaction)
    assert (first.streamed, first.ttft_ms, first.latency_ms) == (True, 250.0, 2000.0)
    assert [(t.name, t.status.value, t.latency_ms) for t in first.tool_calls] == [("grep", "failed", 2000.0)]
    assert (second.terminal.value, second.external_failure) == ("upstream_error", True)
    (score,) = got.store.scores()
    assert (score.failed, score.external_failures) == (True, 1)
