"""What a candidate change itself must meet, whatever the circumstances."""

import re
from collections.abc import Iterator
from typing import Any

from prx.domain.answers import Answer, Failed, Passed
from prx.domain.changes import (
    AddExample,
    AddLine,
    MemoryAdd,
    MemoryPatch,
    PromptOp,
    PromptPatch,
    ReplaceAll,
    StrategyPatch,
    apply_prompt_ops,
    layer_of,
)
from prx.domain.codec import content_hash
from prx.domain.editlimits import check_size, text_size
from prx.domain.errors import InvalidInput
from prx.domain.promptlines import fixed_sections, placeholders
from prx.domain.versions import PromptSet, Strategy, part_hash
from prx.domain.words import spans
from prx.prove.applying import treated_part
from prx.prove.gateinput import Check, GateInput, by_person
from prx.prove.hidden import hidden_text
from prx.prove.rules import GateRules
from prx.prove.scope import Reach, change_kind_fits, memory_scope, prompt_scope, strategy_scope
from prx.prove.wording import lost_safeguards, new_wording, wording_digest

_MARKER = re.compile(r"<!--\s*/?\s*prx\s*:\s*fixed\s*-->", re.IGNORECASE)


def content_checks(given: GateInput, rules: GateRules) -> Iterator[Check]:
    """Scope, syntax, size and text of the change, in this order; stops where reading on makes no sense."""
    scope = _scope(given, rules)
    yield Check("scope", scope or Passed("only what may evolve is touched"))
    if scope is not None:
        return
    syntax = _syntax(given)
    yield Check("syntax", syntax)
    if isinstance(syntax, Passed):
        change = given.proposal.change
        if isinstance(change, PromptPatch):
            yield from _prompt_text(given, change, rules)
        elif isinstance(change, MemoryPatch):
            yield from _memory_text(given, change, rules)


def _scope(given: GateInput, rules: GateRules) -> Failed | None:
    proposal, part, change = given.proposal, given.part, given.proposal.change
    if layer_of(change) is not proposal.layer or not change_kind_fits(part, change):
        return Failed(f"the change does not belong to layer {proposal.layer.label}", "wrong_layer")
    if isinstance(change, PromptPatch) and isinstance(part, PromptSet):
        if any(isinstance(op, ReplaceAll) for op in change.ops) and not by_person(proposal):
            return Failed("only a person replaces a whole prompt", "whole_prompt")
        return prompt_scope(part, change, rules)
    if isinstance(change, StrategyPatch) and isinstance(part, Strategy):
        approved = given.approved if isinstance(given.approved, Strategy) else None
        reach = Reach(rules, approved, given.known_models, given.known_intents, by_person(proposal))
        return strategy_scope(part, change, reach)
    return memory_scope(change) if isinstance(change, MemoryPatch) else None


def _syntax(given: GateInput) -> Answer:
    proposal, part = given.proposal, given.part
    if part_hash(part) != proposal.base:
        return Failed(
            f"{proposal.layer.label} has changed since this was written; propose again", "stale_base"
        )
    try:
        treated = treated_part(part, proposal.change)
    except InvalidInput as error:
        return Failed(f"the change does not apply: {error}", "does_not_apply")
    if part_hash(treated) != proposal.treated:
        return Failed("the change does not give the content that its hash announces", "hash_mismatch")
    if treated == part:
        return Failed("the change changes nothing", "empty_change")
    if (
        isinstance(proposal.change, PromptPatch)
        and isinstance(part, PromptSet)
        and isinstance(treated, PromptSet)
    ):
        name = proposal.change.prompt
        return _immutables(part.texts[name], treated.texts[name])
    return Passed("the change applies to the current part")


def _immutables(before: str, after: str) -> Answer:
    # a marker is looked for loosely: misspelt, it must not pass for text that may be edited
    markers = [_MARKER.findall(text) for text in (before, after)]
    sections = [[content_hash(section) for section in fixed_sections(text)] for text in (before, after)]
    if markers[0] != markers[1] or sections[0] != sections[1]:
        return Failed("a fixed section would change; its bytes are immutable", "fixed_section")
    old, new = placeholders(before), placeholders(after)
    if old != new:
        names = ", ".join(sorted({*(new - old), *(old - new)}))
        return Failed(f"placeholders would change ({names}); they are the app's contract", "placeholder")
    if not after.strip():
        return Failed("the prompt would be empty", "empty_prompt")
    return Passed(f"applies; {len(sections[0])} fixed sections and {old.total()} placeholders kept")


def _prompt_text(given: GateInput, change: PromptPatch, rules: GateRules) -> Iterator[Check]:
    texts = given.part.texts if isinstance(given.part, PromptSet) else {}
    before = texts[change.prompt]
    after = apply_prompt_ops(before, change.ops)
    unframed = _without_frames(before, after, change)
    size, numbers = _size(given, change, before, after, rules)
    yield Check("size", size, numbers)
    if len(after) > rules.max_chars:
        return
    hidden = hidden_text(before, unframed)
    yield Check("hidden", hidden or Passed("no hidden or encoded text"))
    wording = new_wording(before, unframed, given.known_tools) or lost_safeguards(before, after)
    yield Check(
        "wording", wording or Passed("nothing that an edit may not bring"), {"tables": wording_digest()}
    )
    yield Check("memorised", _memorised(before, after, given.sealed_texts, rules.memorised_words))


def _size(
    given: GateInput, change: PromptPatch, before: str, after: str, rules: GateRules
) -> tuple[Answer, dict[str, Any]]:
    if len(after) > rules.max_chars:
        why = f"the prompt would have {len(after)} characters, at most {rules.max_chars}"
        return Failed(why, "too_long"), {"characters": len(after)}
    numbers = {"before_words": text_size(before), "after_words": text_size(after)}
    if by_person(given.proposal):
        if numbers["after_words"] > rules.edit.max_size:
            return Failed(f"the prompt would be longer than {rules.edit.max_size} words", "too_long"), numbers
        return Passed("within the absolute size; a person's edit has no growth cap"), numbers
    answer = check_size(before, after, len(change.ops), rules.edit)
    anchor = given.approved.texts.get(change.prompt) if isinstance(given.approved, PromptSet) else None
    if isinstance(answer, Passed) and anchor is not None:
        room = max(rules.drift_growth * text_size(anchor), 3.0 * rules.edit.small_room)
        numbers["approved_words"] = text_size(anchor)
        if numbers["after_words"] > numbers["approved_words"] + room:
            why = f"grown from {numbers['approved_words']:g} words at the last approval to "
            return Failed(
                f"{why}{numbers['after_words']:g}; a person must approve the way so far", "drift"
            ), numbers
    return answer, numbers


def _without_frames(before: str, after: str, change: PromptPatch) -> str:
    try:
        return apply_prompt_ops(before, tuple(line for op in change.ops for line in _unframed(op)))
    except InvalidInput:  # a later op edits the frame itself
        return after


def _unframed(op: PromptOp) -> Iterator[PromptOp]:
    """The op without the frame of an example, whose own role words are ours."""
    if isinstance(op, AddExample):
        yield AddLine(op.user)
        yield AddLine(op.answer)
    else:
        yield op


def _memorised(before: str, after: str, sealed: tuple[str, ...], length: int) -> Answer:
    new = spans(after, length) - spans(before, length)
    for text in sealed:
        copied = new & spans(text, length)
        if copied:
            shown = " ".join(min(copied))[:80]
            return Failed(f"the change holds a passage of the sealed cases: {shown!r}", "memorised_answers")
    return Passed(f"no {length} words in a row from {len(sealed)} sealed texts")


def _memory_text(given: GateInput, change: MemoryPatch, rules: GateRules) -> Iterator[Check]:
    text = "\n".join(op.text for op in change.ops if isinstance(op, MemoryAdd))
    if len(text) > rules.max_chars:
        long = Failed(f"{len(text)} characters in one change, at most {rules.max_chars}", "too_long")
        yield Check("size", long)
        return
    yield Check("hidden", hidden_text("", text) or Passed("no hidden or encoded text"))
    wording = new_wording("", text, given.known_tools)
    numbers = {"tables": wording_digest()}
    yield Check("wording", wording or Passed("no address, tool, role or permission"), numbers)
