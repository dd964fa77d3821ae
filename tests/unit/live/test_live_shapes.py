import math
from types import SimpleNamespace

import pytest

from prx.domain.records import Message, Tokens, ToolCall, ToolStatus
from prx.live.shapes import clip, cut, last_user_text, messages_of, number, text_of, tokens_of, tool_calls_of


def test_parts_become_text_and_what_is_no_text_is_named() -> None:
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "input_audio", "input_audio": {}},
        SimpleNamespace(type="output_text", text="done"),
        {"type": "refusal", "refusal": "no"},
    ]
    assert text_of(parts) == "Look:\n[image_url]\n[input_audio]\ndone\nno"
    assert text_of(None) == ""
    assert text_of(5) == "5"


def test_messages_are_read_from_text_mappings_and_objects() -> None:
    given = [
        Message(role="system", content="s"),
        {"role": "user", "content": "u", "name": "jo"},
        SimpleNamespace(role="assistant", content=None),
        {"role": "tool", "content": "t", "tool_call_id": "c1"},
        {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c2"},
        {"type": "function_call_output", "call_id": "c2", "output": "42"},
        {"type": "reasoning", "summary": []},
    ]
    assert messages_of(given) == (
        Message(role="system", content="s"),
        Message(role="user", content="u", name="jo"),
        Message(role="assistant"),
        Message(role="tool", content="t", tool_call_id="c1"),
        Message(role="assistant", content="[calls f({})]"),
        Message(role="tool", content="42", tool_call_id="c2"),
    )
    assert messages_of("hello") == (Message(role="user", content="hello"),)
    assert messages_of(None) == ()
    assert last_user_text(messages_of(given)) == "u"
    assert last_user_text(()) == ""


def test_tool_calls_are_read_from_every_shape() -> None:
    chat = {"id": "c1", "function": {"name": "f", "arguments": "{}"}}
    told = {"name": "g", "status": "failed", "result": "boom", "latency_ms": 12, "external": True}
    odd = {"name": "h", "status": "exploded", "arguments": {"a": 1}}
    assert tool_calls_of([chat, told, odd, ToolCall(name="k")]) == (
        ToolCall(name="f", call_id="c1", arguments="{}"),
        ToolCall(name="g", status=ToolStatus.FAILED, result="boom", latency_ms=12.0, external=True),
        ToolCall(name="h", arguments="[dict]"),
        ToolCall(name="k"),
    )
    assert tool_calls_of(None) == ()


@pytest.mark.parametrize(
    ("given", "tokens"),
    [
        (None, Tokens()),
        ({"input": 3, "output": 4, "cache_read": 1}, Tokens(input=3, output=4, cache_read=1)),
        (
            {"prompt_tokens": 3, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}},
            Tokens(input=3, output=4, cache_read=2),
        ),
        (
            {"input_tokens": 3, "output_tokens": 4, "cache_creation_input_tokens": 1},
            Tokens(input=3, output=4, cache_write=1),
        ),
        ({"prompt_tokens": "many", "completion_tokens": -1}, Tokens()),
    ],
)
def test_token_counts_are_read_from_every_shape_and_nonsense_is_unknown(
    given: object, tokens: Tokens
) -> None:
    assert tokens_of(given) == tokens


def test_a_huge_text_keeps_head_tail_size_and_hash() -> None:
    text = "a" * 200_000 + "b" * 200_000
    kept = clip(text)
    assert len(kept) < 263_000
    assert kept.startswith("aaa")
    assert kept.endswith("bbb")
    assert "400000 characters, sha256:" in kept
    assert clip("short") == "short"


def test_a_number_is_finite_and_no_truth_value() -> None:
    assert number(3) == 3.0
    assert [number(x) for x in (math.nan, math.inf, True, "3", None)] == [None] * 5


@pytest.mark.parametrize("place", range(1, 40, 3))
def test_a_text_that_is_cut_keeps_no_half_of_a_word_at_the_edge(place: int) -> None:
    key = "sk-proj-Q1w2E3r4T5y6U7i8O9p0AsDfGhJkLz.x"
    text = "a b/" * 25_000 + key + " " + "c d/" * 60_000
    assert len(text) > 262_144
    half = 131_072
    for around in (half - place, len(text) - half - place):
        moved = "e f/" * (around // 4) + "g" * (around % 4) + " " + key + " " + "c d/" * 70_000
        kept = clip(moved[: max(len(text), 262_200)])
        assert "sk-proj" not in kept or key in kept
        assert "LkJz" not in kept.replace(key, "")
    assert cut("say " + key, 4 + place) == "say "
    assert cut("word one", 8) == "word one"


def test_what_a_cut_left_of_a_private_key_does_not_stay() -> None:
    lines = "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"] * 40)
    pem = f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n"
    text = "x " * 100_000 + pem + "y " * ((131_072 - 200) // 2)
    assert "MIIEvQ" not in clip(text)


def test_a_blob_without_an_end_is_cut_where_it_must_be() -> None:
    assert len(clip("A" * 500_000)) > 262_000
