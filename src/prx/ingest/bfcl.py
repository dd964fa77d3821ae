"""Berkeley function-calling leaderboard, multi-turn: user turns with the reference calls for each."""

from collections.abc import Iterator
from typing import Any

from prx.domain.records import Record, ToolCall
from prx.ingest.drafting import Call, Draft, Source, draft_records
from prx.ingest.plain import Misfit, clean, list_at, name_of
from prx.ingest.transcript import History, to_message


def fits(value: Any) -> bool:
    """True for a multi-turn case."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("question"), list)
        and isinstance(value.get("ground_truth"), list)
    )


def read(value: Any, source: Source) -> Iterator[Record]:
    """One case as one session, one call per user turn.

    The calls are the reference answer, which nobody ran here: their status stays unknown, and `extra` says
    `reference`. Nothing of them is evaluated.
    """
    turns, answers = list_at(value, "question"), list_at(value, "ground_truth")
    if not turns:
        raise Misfit("the case has no turns in `question`")
    history = History()
    calls = []
    for place, turn in enumerate(turns):
        for raw in turn if isinstance(turn, list) else [turn]:
            role = name_of(raw.get("role")) if isinstance(raw, dict) else None
            if role is not None:
                history.add(to_message(raw, role))
        wanted = answers[place] if place < len(answers) and isinstance(answers[place], list) else []
        fields = {
            "messages": history.request(),
            "tool_calls": tuple(_reference(text) for text in wanted if isinstance(text, str)),
            "extra": {"reference": True},
        }
        calls.append(Call(fields))
    case = name_of(value.get("id"))
    yield from draft_records(
        Draft(session_id=source.session_id(case, turns, answers), calls=calls, ref=case), source
    )


def _reference(text: str) -> ToolCall:
    """`book_flight(a='x')` read as name and arguments, as text only."""
    name, bracket, rest = text.strip().partition("(")
    return ToolCall(
        name=name_of(name) or "unnamed", arguments=clean(rest.removesuffix(")")) if bracket else None
    )
