from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prx.domain.records import Interaction, Terminal, ToolStatus
from prx.fitness.tools import agent_failed, externally_failed, read_tool_result

NOW = datetime(2026, 12, 1, tzinfo=UTC)
OK, FAILED, UNKNOWN = ToolStatus.OK, ToolStatus.FAILED, ToolStatus.UNKNOWN


@pytest.mark.parametrize(
    ("result", "status"),
    [
        ("Error: flight HAT030 not available on date 2024-05-13", FAILED),
        ("error - no such user", FAILED),
        ("[ERROR] disk is gone", FAILED),
        ("Fatal error: out of memory", FAILED),
        ("Error executing tool", FAILED),
        ("Traceback (most recent call last):\n  File ...", FAILED),
        ("ValueError: bad date", FAILED),
        ("requests.exceptions.HTTPError: 404", FAILED),
        ('{"error": "not found"}', FAILED),
        ('{"isError": true, "content": []}', FAILED),
        ('{"success": false}', FAILED),
        ('{"status": "failed"}', FAILED),
        ('{"status_code": 404, "body": "x"}', FAILED),
        ('{"exit_code": 2}', FAILED),
        ("exit code: 1\nls: no", FAILED),
        ("exitcode: 1 (execution failed)", FAILED),
        ("bash: foo: command not found", FAILED),
        ("HTTP/1.1 404 Not Found", FAILED),
        ("<tool_use_error>no</tool_use_error>", FAILED),
        ('{"error": null, "rows": []}', OK),
        ('{"reservation_id": "ABC"}', OK),
        ("[]", OK),
        ("255.0", OK),
        ("exitcode: 0 (execution succeeded)", OK),
        ('{"status": "success"}', OK),
        ('{"exit_code": 0}', OK),
        ("Transfer successful", UNKNOWN),
        ("The error rate of the line is 3 %", UNKNOWN),
        ("Errors were discussed at length", UNKNOWN),
        ("Error-free since Monday", UNKNOWN),
        ("[File: reproduce.py (1 lines total)]", UNKNOWN),
        ("", UNKNOWN),
        (None, UNKNOWN),
    ],
)
def test_the_table_reads_a_result(result: str | None, status: ToolStatus) -> None:
    assert read_tool_result(result).status is status


def test_what_the_caller_was_told_wins_over_the_text() -> None:
    assert read_tool_result("Error: x", is_error=False).status is OK
    assert read_tool_result("fine", is_error=True).status is FAILED
    assert read_tool_result("Error: x", status_code=200).status is OK
    assert read_tool_result("fine", status_code=500).status is FAILED
    assert read_tool_result("fine", exit_code=3).status is FAILED
    assert read_tool_result("Error", exit_code=0).status is OK


@pytest.mark.parametrize(
    ("result", "external"),
    [
        ("Error: 429 Too Many Requests", True),
        ("Error: You exceeded your current quota", True),
        ("HTTP 503 Service Unavailable", True),
        ("Error: cancelled by user", True),
        ("Error: payment amount does not add up, total price is 502", False),
        ("Error: user not found", False),
    ],
)
def test_outage_quota_and_cancel_are_not_the_agents_failure(result: str, external: bool) -> None:
    reading = read_tool_result(result)
    assert (reading.status, reading.external) == (FAILED, external)


def test_a_success_that_speaks_of_quota_is_no_external_failure() -> None:
    assert read_tool_result('{"text": "rate limit is 5"}').external is False


def _call(terminal: Terminal, error: str | None = None, external: bool = False) -> Interaction:
    return Interaction(
        record_id="r", at=NOW, session_id="s", terminal=terminal, error=error, external_failure=external
    )


@pytest.mark.parametrize(
    ("call", "external", "agent"),
    [
        (_call(Terminal.COMPLETED), False, False),
        (_call(Terminal.UPSTREAM_ERROR, "400 maximum context length is 512 tokens"), False, True),
        (_call(Terminal.UPSTREAM_ERROR, "status 500"), True, False),
        (_call(Terminal.UPSTREAM_ERROR, "529 overloaded_error"), True, False),
        (_call(Terminal.UPSTREAM_ERROR, "anything", external=True), True, False),
        (_call(Terminal.CLIENT_CANCELLED), True, False),
        (_call(Terminal.SHUTDOWN_CUT), True, False),
        (_call(Terminal.CRASHED), True, False),
    ],
)
def test_a_failed_model_call_is_the_agents_or_not(call: Interaction, external: bool, agent: bool) -> None:
    assert (externally_failed(call), agent_failed(call)) == (external, agent)


@settings(deadline=None)
@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda b: b.decode("latin-1")))
def test_any_text_has_a_reading(text: str) -> None:
    reading = read_tool_result(text)
    assert reading.status in ToolStatus
    assert reading.status is FAILED or not reading.external


def test_a_deeply_nested_result_is_read_as_text() -> None:
    assert read_tool_result("[" * 100_000).status is UNKNOWN
