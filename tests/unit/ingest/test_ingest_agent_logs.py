import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from prx.domain.records import Feedback, Interaction, SessionEnd, SessionStart, ToolStatus

BFCL = [("sample", "bfcl_multi_turn.jsonl"), ("dev", "bfcl_multi_turn_dev.jsonl")]


@pytest.mark.parametrize(("where", "name"), BFCL)
def test_each_user_turn_of_a_bfcl_case_is_a_call_with_its_reference_tools_unrun(
    where: str,
    name: str,
    log_file: Callable[..., Path],
    imported: Callable[..., Any],
    raw_lines: Callable[[Path], list[Any]],
) -> None:
    path = log_file(where, name)
    cases = raw_lines(path)
    got = imported(path)
    assert got.result.dialect == "bfcl"
    assert got.result.sessions == len(cases)
    assert got.result.interactions == sum(len(case["question"]) for case in cases)
    wanted = [call for case in cases for turn in case["ground_truth"] for call in turn]
    assert got.result.tool_calls == {"unknown": len(wanted)}
    names = Counter(call.split("(")[0] for call in wanted)
    assert Counter(t.name for call in got.store.of(Interaction) for t in call.tool_calls) == names
    assert all(call.extra == {"reference": True} for call in got.store.of(Interaction))
    assert not any(score.dimensions for score in got.store.scores())


def test_the_bfcl_file_holds_40_cases_147_turns_and_239_reference_calls(
    log_file: Callable[..., Path], imported: Callable[..., Any]
) -> None:
    result = imported(log_file(*BFCL[1])).result
    assert (result.sessions, result.interactions, result.tool_calls) == (40, 147, {"unknown": 239})


def test_swe_agent_steps_are_calls_whose_command_is_a_timed_tool_call(
    log_file: Callable[..., Path], imported: Callable[..., Any], raw_lines: Callable[[Path], list[Any]]
) -> None:
    path = log_file("dev", "sweagent_trajectories_dev.jsonl.gz")
    steps = [step for line in raw_lines(path) for step in line["traj"]["trajectory"]]
    got = imported(path)
    assert (got.result.dialect, got.result.sessions) == ("sweagent", 2)
    assert got.result.interactions == len(steps) == 23
    calls = got.store.of(Interaction)
    assert [c.response for c in calls] == [step["response"] for step in steps]
    assert [c.tool_calls[0].name for c in calls] == [step["action"].split()[0] for step in steps]
    timed = [s["execution_time"] * 1000 for s in steps if "execution_time" in s]
    assert [c.tool_calls[0].latency_ms for c in calls if c.tool_calls[0].latency_ms] == pytest.approx(timed)
    refused = sum(s["observation"].startswith("Your proposed edit has introduced") for s in steps)
    assert got.result.tool_calls["failed"] == refused == 2
    assert sum(got.result.tool_calls.values()) == 23
    assert calls[0].model == "gpt-4o"


def trajectory(**info: Any) -> dict[str, Any]:
    return {
        "trajectory": [
            {"action": "ls -F", "observation": "a.py", "response": "look", "execution_time": 0.5},
            {"action": "cat a.py", "observation": "bash: cat: command not found", "response": "read"},
        ],
        "history": [
            {"role": "system", "content": "rules"},
            {"role": "user", "content": "a demonstration", "is_demo": True},
            {"role": "user", "content": "the issue"},
            {"role": "assistant", "content": "look"},
        ],
        "info": info,
    }


def test_a_trajectory_without_a_submission_failed_and_its_totals_are_the_sessions(
    tmp_path: Path, imported: Callable[..., Any]
) -> None:
    stats = {"tokens_sent": 900, "tokens_received": 100, "instance_cost": 0.25}
    path = tmp_path / "run.traj"
    path.write_text(
        json.dumps(trajectory(exit_status="exit_cost", submission=None, model_stats=stats), indent=2)
    )
    (score,) = imported(path).store.scores()
    assert (score.dimensions["task_completion"], score.tokens, score.cost_usd) == (0.0, 1000, 0.25)


def test_a_submission_alone_is_no_success_and_a_demonstration_no_request(
    tmp_path: Path, imported: Callable[..., Any]
) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(trajectory(exit_status="submitted", submission="diff")))
    got = imported(path)
    assert not got.store.of(Feedback)
    first, second = got.store.of(Interaction)
    assert [m.content for m in first.messages] == ["rules", "the issue"]
    assert second.tool_calls[0].status is ToolStatus.FAILED
    assert first.tool_calls[0].latency_ms == 500.0


def test_who_and_when_runs_give_their_calls_terminal_runs_outcome_and_mistake(
    log_file: Callable[..., Path], imported: Callable[..., Any], raw_lines: Callable[[Path], list[Any]]
) -> None:
    path = log_file("dev", "whowhen_failure_logs_dev.jsonl.gz")
    runs = raw_lines(path)
    entries = [(e.get("name") or e["role"], e["content"]) for run in runs for e in run["history"]]
    terminal = [c for who, c in entries if who in ("Computer_terminal", "ComputerTerminal")]
    spoken = [
        c
        for who, c in entries
        if who not in ("Computer_terminal", "ComputerTerminal", "human") and "termination" not in who
    ]
    codes = [m[1] for text in terminal if (m := re.search(r"exit ?code: (\d+)", text[:100]))]
    got = imported(path)
    assert (got.result.dialect, got.result.sessions) == ("whowhen", 81)
    assert got.result.interactions == len(spoken) == 741
    assert (
        got.result.tool_calls
        == {
            "ok": codes.count("0"),
            "failed": len(codes) - codes.count("0"),
        }
        == {"ok": 81, "failed": 49}
    )
    assert got.store.mean("task_completion") == 0.0
    mistakes = {f.target: f.value for f in got.store.of(Feedback) if f.name == "mistake"}
    assert len(mistakes) == 81
    calls = {c.record_id: c for c in got.store.of(Interaction)}
    expected = Counter()
    for run in runs:
        until = run["history"][: int(run["mistake_step"]) + 1]
        said = [e["content"] for e in until if e["content"] in spoken]
        expected[run["mistake_reason"], said[-1]] += 1
    assert Counter((reason, calls[target].response) for target, reason in mistakes.items()) == expected


def test_a_made_up_run_of_two_agents_is_read_like_who_and_when(
    tmp_path: Path, imported: Callable[..., Any]
) -> None:
    run = {
        "is_correct": True,
        "question": "How many?",
        "ground_truth": "3",
        "history": [
            {"role": "human", "content": "How many?"},
            {"role": "assistant", "name": "Counter", "content": "print(3)"},
            {"role": "user", "name": "Computer_terminal", "content": "exitcode: 0 (execution succeeded)\n3"},
            {"role": "user", "name": "Computer_terminal", "content": "There is no code to execute"},
            {"role": "user", "name": "Checker", "content": "TERMINATE"},
        ],
        "mistake_agent": "Checker",
        "mistake_step": "4",
        "mistake_reason": "none really",
        "system_prompt": {"Counter": "You count."},
    }
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(run) + "\n")
    got = imported(path)
    assert got.result.tool_calls == {"ok": 1}
    first, second = got.store.of(Interaction)
    assert [(m.role, m.content) for m in first.messages] == [("system", "You count."), ("user", "How many?")]
    assert [m.role for m in second.messages] == ["user", "assistant", "tool", "tool"]
    assert got.store.mean("task_completion") == 1.0
    told = {f.name: (f.value, f.target) for f in got.store.of(Feedback)}
    assert told["mistake"] == ("none really", second.record_id)
    assert told["expected"][0] == "3"


@pytest.mark.parametrize("where", ["sample", "dev"])
def test_inspect_samples_are_sessions_with_times_tokens_and_grades(
    where: str, log_file: Callable[..., Path], imported: Callable[..., Any]
) -> None:
    path = log_file(
        where, "inspect_popularity.json" if where == "sample" else "inspect_eval_log_popularity.json"
    )
    log = json.loads(path.read_text())
    got = imported(path)
    assert (got.result.dialect, got.result.sessions, got.result.untimed) == ("inspect", 3, 0)
    grades = [sample["scores"]["match"]["value"] for sample in log["samples"]]
    assert grades == ["C", "C", "I"]
    assert got.store.mean("task_completion") == pytest.approx(2 / 3)
    usage = log["stats"]["model_usage"]["openai/gpt-4o-mini"]
    calls = got.store.of(Interaction)
    assert sum(c.tokens.input or 0 for c in calls) == usage["input_tokens"] == 192
    assert sum(c.tokens.output or 0 for c in calls) == usage["output_tokens"] == 6
    assert [c.latency_ms for c in calls] == pytest.approx(
        [s["output"]["time"] * 1000 for s in log["samples"]]
    )
    assert calls[0].at == datetime(2025, 5, 13, 0, 28, 13, 301227, tzinfo=UTC)
    assert {(c.provider, c.model) for c in calls} == {("openai", "gpt-4o-mini")}
    attached = log["samples"][0]["attachments"].values()
    assert {m.content for m in calls[0].messages} == set(attached)
    assert [s.success for s in got.store.scores()] == [True, True, False]
    ends = [end.at for end in got.store.of(SessionEnd)]
    assert ends == [c.at + timedelta(milliseconds=c.latency_ms or 0) for c in calls]


@pytest.mark.parametrize("where", ["sample", "dev"])
def test_inspect_tool_errors_are_failed_tool_calls_although_the_call_itself_is_not_in_the_log(
    where: str, log_file: Callable[..., Path], imported: Callable[..., Any]
) -> None:
    path = log_file(where, "inspect_log_tool_call_error.json")
    (sample,) = json.loads(path.read_text())["samples"]
    got = imported(path)
    (call,) = got.store.of(Interaction)
    assert got.result.tool_calls == {"failed": len(sample["messages"])} == {"failed": 11}
    assert [t.name for t in call.tool_calls] == [m["function"] for m in sample["messages"]]
    assert call.response is None
    assert call.at == datetime(2025, 2, 7, tzinfo=UTC)
    assert got.store.of(SessionStart)[0].at == datetime(2025, 2, 7, tzinfo=UTC)


def test_openprx_decisions_and_memory_reads_become_calls_and_recalls(
    tmp_path: Path, imported: Callable[..., Any]
) -> None:
    base = {"experiment_id": "e", "trace_id": "t1", "task_type": "tool_call"}
    lines = [
        {
            **base,
            "timestamp": "2026-03-01T10:00:00Z",
            "decision_type": "tool_selection",
            "action_taken": "search",
            "outcome": "success",
            "tokens_used": 400,
            "latency_ms": 900,
        },
        {
            **base,
            "timestamp": "2026-03-01T10:01:00Z",
            "decision_type": "other",
            "outcome": "failure",
            "tokens_used": 100,
            "latency_ms": 100,
            "user_correction": "no, the other one",
        },
        {
            **base,
            "timestamp": "2026-03-01T10:02:00Z",
            "action": "read",
            "memory_id": "m1",
            "was_useful": True,
            "tokens_consumed": 10,
        },
        {**base, "timestamp": "2026-03-01T10:03:00Z", "action": "delete", "memory_id": "m2"},
    ]
    path = tmp_path / "2026-03-01.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    got = imported(path)
    assert (got.result.dialect, got.result.sessions, got.result.interactions) == ("openprx", 1, 3)
    assert [p.line for p in got.result.problems] == [4]
    (score,) = got.store.scores()
    assert score.dimensions["task_completion"] == 0.5
    assert score.dimensions["memory_precision"] == 1.0
    assert score.dimensions["user_satisfaction"] == 0.0
    assert score.tokens == 510
    assert score.started_at == datetime(2026, 3, 1, 10, tzinfo=UTC)
