import json
import math

from spool_records import START, interaction

from prx.domain.codec import decode, encode
from prx.domain.records import Feedback, Interaction, PromptSeen, SessionStart, Tokens
from prx.spool.content import Content, envelope, payload

KEY = "sk-proj-abcDEF0123456789abcDEF0123456789"


def test_a_record_without_secrets_is_stored_as_its_canonical_json() -> None:
    record = interaction("i-1", tokens=Tokens(input=3, output=4), latency_ms=12.5)
    assert payload(record, Content.FULL) == encode(record)


def test_credentials_are_gone_from_every_text_of_a_record_and_it_still_decodes() -> None:
    record = interaction(
        "i-1",
        text=f"my key is {KEY}",
        response=f"do not share {KEY}",
        error=f"401 for {KEY}",
        prompt_values={"support": {"key": KEY}},
        extra={"headers": {"user": KEY, "nested": [KEY]}, KEY: 1},
    )
    body = payload(record, Content.FULL)
    assert body is not None
    assert KEY.encode() not in body
    back = decode(body, Interaction)
    assert back.messages[0].content == "my key is [redacted:provider-key]"
    assert back.record_id == "i-1"


def test_a_credential_used_as_a_reference_becomes_a_digest_that_still_joins() -> None:
    start = SessionStart(record_id="r-1", at=START, session_id="s-1", ref=KEY)
    signal = Feedback(record_id="f-1", at=START, target_kind="ref", target=KEY, name="thumb", value=1.0)
    stored = [json.loads(payload(r, Content.FULL) or b"") for r in (start, signal)]
    assert stored[0]["ref"] == stored[1]["target"] != KEY
    assert KEY not in json.dumps(stored)


def test_personal_data_stays_in_keys_that_join_records_and_goes_from_text() -> None:
    record = interaction("i-1", text="I am jo@example.com", ref="jo@example.com")
    back = decode(payload(record, Content.REDACTED) or b"", Interaction)
    assert back.messages[0].content == "I am [redacted:email]"
    assert back.ref == "jo@example.com"
    assert decode(payload(record, Content.FULL) or b"", Interaction) == record


def test_content_none_keeps_the_envelope_only() -> None:
    record = interaction("i-1", error="BadRequestError: the text was", tokens=Tokens(input=3, output=4))
    back = decode(payload(record, Content.NONE) or b"", Interaction)
    assert back == envelope(record)
    assert (back.messages[0].content, back.response, back.tool_calls[0].arguments) == ("", None, None)
    assert (back.model, back.tokens.input, back.error, back.tool_calls[0].name) == (
        "gpt-4o",
        3,
        "BadRequestError",
        "look_up",
    )


def test_a_prompt_default_with_a_credential_is_not_stored_at_all() -> None:
    # Stored without the credential it would become another prompt than the app's own.
    seen = PromptSeen(record_id="p-1", at=START, agent="default", name="support", text=f"Use {KEY}.")
    assert payload(seen, Content.FULL) is None
    plain = PromptSeen(record_id="p-2", at=START, agent="default", name="support", text="Be kind.")
    assert payload(plain, Content.NONE) == encode(plain)


def test_what_json_cannot_hold_never_costs_the_record() -> None:
    loop: list[object] = []
    loop.append(loop)
    record = interaction(
        "i-1",
        text="half a pair: \ud83d",
        extra={"object": object, "big": 2**80, "nan": math.nan, "loop": loop, 5: "five"},
    )
    back = decode(payload(record, Content.FULL) or b"", Interaction)
    assert back.messages[0].content == "half a pair: ?"
    assert back.extra["big"] == str(2**80)
    assert back.extra["nan"] is None
    assert back.extra["5"] == "five"
