import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prx.domain.records import Feedback, Interaction, SessionStart, UnitSource

AIRLINE = [("sample", "taubench_airline.jsonl"), ("dev", "taubench_airline_gpt4o_dev.jsonl.gz")]
RETAIL = [("sample", "taubench_retail.jsonl"), ("dev", "taubench_retail_dialogs_dev.jsonl.gz")]


def status_by_hand(result: str) -> str:
    if result.startswith("Error"):
        return "failed"
    try:
        json.loads(result)
    except ValueError:
        return "unknown"
    return "ok"


@pytest.mark.parametrize(("where", "name"), AIRLINE)
def test_mean_task_completion_is_the_mean_reward_of_the_file(
    where: str,
    name: str,
    log_file: Callable[..., Path],
    imported: Callable[..., Any],
    raw_lines: Callable[[Path], list[Any]],
) -> None:
    path = log_file(where, name)
    rewards = [run["reward"] for run in raw_lines(path)]
    got = imported(path)
    assert got.store.mean("task_completion") == pytest.approx(sum(rewards) / len(rewards), abs=1e-12)
    assert sum(score.success is True for score in got.store.scores()) == rewards.count(1.0)


@pytest.mark.parametrize(("where", "name"), AIRLINE)
def test_every_assistant_message_is_a_call_and_every_tool_result_has_the_status_of_its_text(
    where: str,
    name: str,
    log_file: Callable[..., Path],
    imported: Callable[..., Any],
    raw_lines: Callable[[Path], list[Any]],
) -> None:
    path = log_file(where, name)
    runs = raw_lines(path)
    messages = [m for run in runs for m in run["traj"]]
    got = imported(path)
    assert got.result.dialect == "taubench"
    assert got.result.sessions == len(runs)
    assert got.result.interactions == sum(m["role"] == "assistant" for m in messages)
    statuses = Counter(status_by_hand(m["content"]) for m in messages if m["role"] == "tool")
    assert got.result.tool_calls == dict(statuses)
    names = Counter(m["name"] for m in messages if m["role"] == "tool")
    assert Counter(t.name for call in got.store.of(Interaction) for t in call.tool_calls) == names


def test_the_airline_file_holds_100_sessions_a_mean_reward_of_0_31_and_21_users(
    log_file: Callable[..., Path], imported: Callable[..., Any]
) -> None:
    got = imported(log_file(*AIRLINE[1]))
    assert (got.result.sessions, got.result.interactions, got.result.feedback) == (100, 1381, 100)
    assert got.result.tool_calls == {"ok": 481, "failed": 63, "unknown": 77}
    assert got.store.mean("task_completion") == pytest.approx(0.31, abs=1e-12)
    starts = got.store.of(SessionStart)
    assert len({s.user for s in starts}) == 21
    assert all(s.unit == s.user and s.unit_source is UnitSource.USER for s in starts)
    assert {d for score in got.store.scores() for d in score.dimensions} == {"task_completion"}


def test_a_call_is_given_what_came_before_it_and_no_more(
    log_file: Callable[..., Path], imported: Callable[..., Any], raw_lines: Callable[[Path], list[Any]]
) -> None:
    path = log_file(*AIRLINE[0])
    first = raw_lines(path)[0]["traj"]
    trace = next(imported(path).store.traces())
    place = [i for i, m in enumerate(first) if m["role"] == "assistant"][2]
    call = trace.interactions[2]
    assert [m.role for m in call.messages] == [m["role"] for m in first[:place]]
    assert call.messages[-1].content == first[place - 1]["content"]
    assert (call.response or "") == (first[place]["content"] or "")


def test_records_without_a_time_take_the_imports_in_their_order_and_say_so(
    log_file: Callable[..., Path], imported: Callable[..., Any]
) -> None:
    got = imported(log_file(*AIRLINE[0]))
    assert got.result.untimed == got.result.interactions
    for trace in got.store.traces():
        times = [call.at for call in trace.interactions]
        assert times == sorted(set(times))
        assert trace.start.at < times[0]
        assert trace.ended_at is not None
        assert (trace.ended_at - times[0]).total_seconds() < 1
        assert not any(call.time_known for call in trace.interactions)


@pytest.mark.parametrize(("where", "name"), RETAIL)
def test_dialogs_shown_as_text_give_their_calls_and_the_status_of_each_tool_result(
    where: str,
    name: str,
    log_file: Callable[..., Path],
    imported: Callable[..., Any],
    raw_lines: Callable[[Path], list[Any]],
) -> None:
    path = log_file(where, name)
    texts = [line["messages_display"] for line in raw_lines(path)]
    got = imported(path)
    assert got.result.dialect == "taubench-dialogs"
    assert got.result.sessions == len(set(texts))
    assert got.result.interactions == sum(len(re.findall(r"(?m)^assistant: ", text)) for text in texts)
    blocks = [b for text in texts for b in re.split(r"(?m)^(?=(?:user|assistant|tool): )", text)]
    results = [b.removeprefix("tool: ").removesuffix("\n") for b in blocks if b.startswith("tool: ")]
    assert got.result.tool_calls == dict(Counter(map(status_by_hand, results)))
    assert not got.store.of(Feedback)


def test_the_completion_of_a_dialog_is_its_share_of_known_tool_calls_that_worked(
    log_file: Callable[..., Path], imported: Callable[..., Any], raw_lines: Callable[[Path], list[Any]]
) -> None:
    got = imported(log_file(*RETAIL[1]))
    assert (got.result.sessions, got.result.interactions) == (35, 488)
    assert got.result.tool_calls == {"ok": 191, "failed": 17, "unknown": 41}
    shares = []
    for line in raw_lines(log_file(*RETAIL[1])):
        blocks = re.split(r"(?m)^(?=(?:user|assistant|tool): )", line["messages_display"])
        made = [status_by_hand(b[6:].removesuffix("\n")) for b in blocks if b.startswith("tool: ")]
        known = [m for m in made if m != "unknown"]
        shares += [known.count("ok") / len(known)] if known else []
    assert got.store.mean("task_completion") == pytest.approx(sum(shares) / len(shares), abs=1e-12)
