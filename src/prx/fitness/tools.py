"""The table by which a call's failure is known, and by which a failure is not the agent's.

A version of the table is a number: recorded statuses stay what they were when a later table reads more.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from prx.domain.records import Interaction, Terminal, ToolStatus

TABLE_VERSION = 1
_LOOK_AT = 4000
_PARSE_AT_MOST = 200_000

FAILURE_TEXT: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "error prefix",
        re.compile(r"\s*\[?(?:error|fatal(?: error)?|failure)\b\s*(?::|\]|\s-\s)", re.IGNORECASE),
    ),
    ("error sentence", re.compile(r"\s*Error (?:\d{3}\b|executing|running|calling|while|when|in )")),
    ("exception name", re.compile(r"\s*[A-Za-z_.]{0,60}(?:Error|Exception)\b\s*:")),
    ("python traceback", re.compile(r"(?:.|\n){0,400}?Traceback \(most recent call last\)")),
    ("tool error tag", re.compile(r"\s*<(?:tool_use_)?error>")),
    ("exit code", re.compile(r"\s*(?:\[?exit ?(?:code|status)\]?)\s*[:=]?\s*-?[1-9]\d*\b", re.IGNORECASE)),
    ("command not found", re.compile(r".{0,200}: (?:command not found|No such file or directory)")),
    ("edit refused", re.compile(r"\s*Your proposed edit has introduced new syntax error")),
    (
        "http status",
        re.compile(r"\s*(?:HTTP(?:/\d(?:\.\d)?)?|status(?: code)?)\s*:?\s*[45]\d\d\b", re.IGNORECASE),
    ),
)
SUCCESS_TEXT: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("exit code 0", re.compile(r"\s*(?:\[?exit ?(?:code|status)\]?)\s*[:=]?\s*0\b", re.IGNORECASE)),
    ("bare number", re.compile(r"\s*-?\d+(?:\.\d+)?\s*$")),
    (
        "http status 2xx",
        re.compile(r"\s*(?:HTTP(?:/\d(?:\.\d)?)?|status(?: code)?)\s*:?\s*2\d\d\b", re.IGNORECASE),
    ),
)
_FAILED_WORDS = frozenset({"error", "failed", "failure", "fail", "timeout"})
_OK_WORDS = frozenset({"ok", "success", "succeeded", "completed", "done"})
_EXTERNAL_CODES = frozenset({429, 499, 502, 503, 504, 529})
_EXTERNAL_TEXT = re.compile(
    r"(?:status|code|http|error)[^\n\d]{0,12}(?:429|50[234]|529)\b"
    r"|rate.?limit|too many requests|insufficient_quota|quota (?:exceeded|reached)"
    r"|exceeded your current quota|overloaded|service (?:is )?unavailable|bad gateway|gateway time-?out"
    r"|connection (?:refused|reset|aborted)|cancell?ed by (?:the )?user|user cancell?ed|keyboardinterrupt"
    r"|aborterror",
    re.IGNORECASE,
)
_PROVIDER_OUTAGE = re.compile(
    r"(?:status|code|http|error)[^\n\d]{0,12}5\d\d\b|^\s*5\d\d\b"
    r"|internal server error|server_error|connection error",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ToolReading:
    """What the table says of one tool call; `rule` names the line that matched, empty when none did."""

    status: ToolStatus
    external: bool = False
    rule: str = ""


def read_tool_result(
    result: str | None,
    *,
    is_error: bool | None = None,
    status_code: int | None = None,
    exit_code: int | None = None,
) -> ToolReading:
    """Status of a tool call from what came back, by table version `TABLE_VERSION`.

    What the caller knows wins (`is_error`, then HTTP `status_code`, then process `exit_code`), then the
    fields of a JSON result, then the beginning of a text. A JSON result without a sign of failure is ok;
    a text without any sign is unknown. `result` is only read.
    """
    text = result or ""
    if is_error is not None:
        return _failed(text, "told") if is_error else ToolReading(ToolStatus.OK, rule="told")
    if status_code is not None:
        return _by_code(text, status_code)
    if exit_code is not None:
        if exit_code == 0:
            return ToolReading(ToolStatus.OK, rule="exit code 0")
        return _failed(text, "exit code")
    return _by_content(text)


def agent_failed(call: Interaction) -> bool:
    """True when the model call itself failed and the agent is to blame (a refused request, say)."""
    return call.terminal is Terminal.UPSTREAM_ERROR and not externally_failed(call)


def externally_failed(call: Interaction) -> bool:
    """True when the call failed for a reason outside the agent: outage, quota, cancel, our own shutdown."""
    if call.external_failure:
        return True
    if call.terminal is Terminal.UPSTREAM_ERROR:
        return _is_outage(call.error or "")
    return call.terminal is not Terminal.COMPLETED


def _is_outage(text: str) -> bool:
    return is_external(text) or bool(_PROVIDER_OUTAGE.search(text[:_LOOK_AT]))


def is_external(text: str) -> bool:
    """True when the text of a failure speaks of quota, an outage or a cancel by the user."""
    return bool(_EXTERNAL_TEXT.search(text[:_LOOK_AT]))


def _by_code(text: str, code: int) -> ToolReading:
    if code < 400:
        return ToolReading(ToolStatus.OK, rule=f"status {code}")
    external = code in _EXTERNAL_CODES or is_external(text)
    return ToolReading(ToolStatus.FAILED, external=external, rule=f"status {code}")


def _by_content(text: str) -> ToolReading:
    stripped = text.strip()
    if not stripped:
        return ToolReading(ToolStatus.UNKNOWN)
    if stripped[0] in "{[" and len(stripped) <= _PARSE_AT_MOST:
        try:
            return _by_json(json.loads(stripped), text)
        except (ValueError, RecursionError):
            pass
    head = text[:_LOOK_AT]
    for rule, pattern in FAILURE_TEXT:
        if pattern.match(head):
            return _failed(text, rule)
    for rule, pattern in SUCCESS_TEXT:
        if pattern.match(head):
            return ToolReading(ToolStatus.OK, rule=rule)
    return ToolReading(ToolStatus.UNKNOWN)


def _by_json(value: Any, text: str) -> ToolReading:
    if not isinstance(value, dict):
        return ToolReading(ToolStatus.OK, rule="json without error")
    for key in ("status_code", "statusCode", "http_status", "status"):
        code = value.get(key)
        if isinstance(code, int) and not isinstance(code, bool) and 100 <= code < 600:
            return _by_code(text, code)
    for key in ("exit_code", "exitCode", "returncode", "return_code"):
        code = value.get(key)
        if isinstance(code, int) and not isinstance(code, bool):
            return _failed(text, key) if code else ToolReading(ToolStatus.OK, rule=key)
    for key in ("error", "errors", "isError", "is_error", "exception"):
        if value.get(key):
            return _failed(text, key)
    for key in ("success", "ok"):
        if isinstance(value.get(key), bool):
            return ToolReading(ToolStatus.OK, rule=key) if value[key] else _failed(text, key)
    status = value.get("status")
    if isinstance(status, str) and status.strip().lower() in _FAILED_WORDS:
        return _failed(text, "status")
    if isinstance(status, str) and status.strip().lower() in _OK_WORDS:
        return ToolReading(ToolStatus.OK, rule="status")
    return ToolReading(ToolStatus.OK, rule="json without error")


def _failed(text: str, rule: str) -> ToolReading:
    return ToolReading(ToolStatus.FAILED, external=is_external(text), rule=rule)
