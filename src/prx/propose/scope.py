"""What a prompt edit may contain: deterministic checks before any model call."""

import re
from collections.abc import Sequence

from prx.domain.answers import Failed, Passed
from prx.domain.changes import (
    AddExample,
    DeleteLine,
    PromptOp,
    PromptPatch,
    ReplaceAll,
    ReplaceLine,
    apply_prompt_ops,
)
from prx.domain.editlimits import check_size
from prx.domain.errors import InvalidInput
from prx.domain.plaintext import is_unseen, quoted, skeleton
from prx.domain.promptlines import FIXED_END, FIXED_START, editable_lines, fixed_sections, placeholders
from prx.propose.draft import ProposeRules
from prx.propose.evidence import Case, copied_span

_ADDRESS = re.compile(
    r"\b(?:[a-z][a-z0-9+.-]*://\S+|www\.\S+|[\w.+-]+@[\w-]+\.\w+|"
    r"(?:[a-z0-9-]+\.)+(?:com|net|org|io|ai|app|dev|co|info|biz|ru|cn|jp|kr|es|de|uk|me|xyz|top|site|onion)\b)"
)
_ROLE = re.compile(
    r"(?:^|\n)\s*[\W_]*(?:system|assistant|user|developer|tool|human|function)\s*[:>\]]|"
    r"<\|[^|]*\|>|\[/?inst\]|</?(?:system|assistant|user|human|tool)\b|<<sys>>|"
    r"(?:^|\n)\s*[\W_]*(?:система|usuario|asistente|sistema|系统|助手|用户|システム|시스템)\s*[:：]"
)
_FENCE = re.compile(r"```|~~~")
_BACKTICKED = re.compile(r"`([^`]+)`|\b([a-z]\w*_\w+)\(")


def check_edit(
    patch: PromptPatch, before: str, cases: Sequence[Case], rules: ProposeRules
) -> Passed | Failed:
    """Whether the edit stays within what may evolve.

    Checked: lines named exist and are editable; one line per operation; no unseen characters, fences, role
    marks, addresses; placeholders and fixed sections unchanged; tool names neither lost nor invented; size;
    no run of words copied from the records of too few users.
    """
    for op in patch.ops:
        found = _check_op(op, before, cases, rules)
        if found is not None:
            return found
    try:
        after = apply_prompt_ops(before, patch.ops)
    except InvalidInput as error:
        return Failed(str(error), "stale_line")
    if after == before:
        return Failed("the edit changes nothing", "no_change")
    if fixed_sections(after) != fixed_sections(before):
        return Failed("the edit touches a fixed section", "fixed_section")
    if placeholders(after) != placeholders(before):
        return Failed("the edit adds or removes a placeholder", "placeholder")
    return check_size(before, after, len(patch.ops), rules.limits)


def _check_op(op: PromptOp, before: str, cases: Sequence[Case], rules: ProposeRules) -> Failed | None:
    if isinstance(op, ReplaceAll):
        return Failed("only a person may replace a whole prompt", "replace_all")
    old = op.old if isinstance(op, ReplaceLine | DeleteLine) else ""
    if old and old not in editable_lines(before):
        return Failed(f"the line {quoted(old, 60)!r} is not editable", "not_editable")
    texts = _new_texts(op)
    for text in texts:
        found = _check_text(text, before, rules)
        if found is not None:
            return found
    joined = "\n".join(texts)
    lost = _tools_in(old, rules) - _tools_in(joined, rules)
    if lost:
        return Failed(f"the edit drops the tool name {quoted(min(lost), 60)}", "tool_name")
    span = copied_span(joined, cases, allowed=before, rules=rules)
    if span is not None:
        shown = quoted(" ".join(span), 80)
        why = f"{len(span)} words in a row come from records of fewer than {rules.min_users} users: {shown!r}"
        return Failed(why, "copied_text")
    return None


def _check_text(text: str, before: str, rules: ProposeRules) -> Failed | None:
    plain = skeleton(text)
    if not text.strip():
        return Failed("an operation without text", "empty_text")
    if len(text.splitlines()) > 1:
        return Failed("an operation may hold one line only", "many_lines")
    if any(is_unseen(char) for char in text) or FIXED_START in text or FIXED_END in text or "<!--" in text:
        return Failed("the text holds unseen characters or marks of a section", "hidden_text")
    if _FENCE.search(text):
        return Failed("the text holds a code fence", "fence")
    if _ROLE.search(plain) or _ROLE.search(text.casefold()):
        return Failed("the text holds a role mark", "role_mark")
    known = skeleton(before)
    new_address = next((m.group() for m in _ADDRESS.finditer(plain) if m.group() not in known), None)
    if new_address:
        return Failed(f"the text holds a new address: {quoted(new_address, 60)}", "new_address")
    named = {a or b for a, b in _BACKTICKED.findall(text)}
    invented = sorted(name for name in named if name not in rules.tools and name not in before)
    if invented:
        return Failed(f"the text names an unknown tool: {quoted(invented[0], 60)}", "tool_name")
    return None


def _new_texts(op: PromptOp) -> tuple[str, ...]:
    if isinstance(op, DeleteLine):
        return ()
    if isinstance(op, AddExample):
        return (op.user, op.answer)
    return (op.new,) if isinstance(op, ReplaceLine) else (op.text,)


def _tools_in(text: str, rules: ProposeRules) -> frozenset[str]:
    return frozenset(name for name in rules.tools if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text))
