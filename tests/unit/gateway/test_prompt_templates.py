"""Learned templates: what differs between sessions is a slot, and no value of a session gets into one."""

import random
import re
import string
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx.gateway.prompts.alignment import first_constants, merged
from prx.gateway.prompts.learner import Learner, LearnRules
from prx.gateway.prompts.template import Template, parse, template_of

NOW = datetime(2026, 12, 1, tzinfo=UTC)
WORDS = re.findall(
    r"\w+",
    "you are a helpful support agent for the store answer briefly and kindly never promise "
    "refunds ask for order number when missing use tools check policy first keep tone",
)
# Enough prompts times sessions for more than 20,000 generated sessions.
PROMPTS, SESSIONS = 210, 100


def skeleton(rng: random.Random) -> tuple[str, int]:
    """A prompt of 1 to 8 lines with `{n}` where a session's value goes."""
    lines, slots = [], 0
    for number in range(rng.randint(1, 8)):
        line = [rng.choice(WORDS) for _ in range(rng.randint(4, 12))]
        if rng.random() < 0.5 or number == 0:
            line.insert(rng.randint(0, len(line)), f"{{{slots}}}")
            slots += 1
        lines.append(" ".join(line) + rng.choice(".:!"))
    return "\n".join(lines), slots


def value(rng: random.Random) -> str:
    """Words that occur in no prompt: none, some, or several lines of them, with spaces and marks around."""
    kind = rng.random()
    if kind < 0.05:
        return ""
    words = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(7, 12))) for _ in range(4)]
    text = rng.choice((" ", ", ", "\n", "-")).join(words[: rng.randint(1, 4)])
    return f"<{text}>" if kind > 0.9 else text.title() if kind > 0.8 else text


def filled(text: str, values: list[str]) -> str:
    for place, one in enumerate(values):
        text = text.replace(f"{{{place}}}", one, 1)
    return text


def words_in(text: str) -> set[str]:
    return {word.lower() for word in "".join(c if c.isalnum() else " " for c in text).split()}


def test_no_value_of_a_session_gets_into_a_template_or_another_session() -> None:
    """21,000 generated sessions."""
    learned = 0
    for seed in range(PROMPTS):
        rng = random.Random(seed)
        text, slots = skeleton(rng)
        own, learner, sent = words_in(text), Learner(), []
        for session in range(SESSIONS):
            sent.append(filled(text, [value(rng) for _ in range(slots)]))
            learner.observe(sent[-1], f"unit-{session}", NOW)
        for kind in learner.settled():
            learned += 1
            template = kind.template
            assert words_in(" ".join(template.constants)) <= own, seed
            for one in sent[-20:]:
                values = template.match(one)
                assert values is not None, seed
                assert filled_by(template, values) == one
    assert learned >= PROMPTS * 0.95


def filled_by(template: Template, values: dict[str, str]) -> str:
    out = template.constants[0]
    for name, constant in zip(template.names, template.constants[1:], strict=True):
        out += values[name] + constant
    return out


def test_nothing_is_shown_before_enough_units_have_sent_it() -> None:
    learner = Learner(LearnRules(units=20))
    for n in range(200):
        learner.observe(
            f"You are the agent of customer Ada{n % 19}. Answer in two sentences.", f"u{n % 19}", NOW
        )
    assert learner.settled() == []
    assert (
        learner.observe("You are the agent of customer Bo. Answer in two sentences.", "u20", NOW) is not None
    )


def test_one_users_many_sessions_count_once() -> None:
    learner = Learner(LearnRules(units=3))
    for _ in range(50):
        learner.observe("You are the agent of customer Ada. Answer in two sentences.", "ada", NOW)
    assert learner.settled() == []


@pytest.mark.parametrize(
    "private",
    ["ada@example.org", "2026-12-01T10:00:00Z", "4917012345678", "sk-proj-abcdefgh12345", "user-77-ada"],
)
def test_what_is_private_by_its_form_or_by_the_request_is_a_slot_at_once(private: str) -> None:
    constants = first_constants(f"Speak to {private} about the order.", ["user-77-ada"])
    assert constants == ("Speak to ", " about the order.")


def test_two_prompts_of_one_agent_are_learned_apart() -> None:
    learner = Learner(LearnRules(units=5))
    for n in range(10):
        learner.observe(f"Translate the text of {n}abc{n} into French, nothing else.", f"u{n}", NOW)
        learner.observe(f"Classify the following ticket by topic. Ticket: x{n}y{n}", f"u{n}", NOW)
    texts = [kind.template.text for kind in learner.settled()]
    assert texts == [
        "Translate the text of {slot_1} into French, nothing else.",
        "Classify the following ticket by topic. Ticket: {slot_1}",
    ]


def test_braces_of_the_prompt_are_never_taken_for_a_slot() -> None:
    constants = ("Fill {slot_1} and {name} for ", ", thanks.")
    template = template_of(constants)
    assert parse(template.text, template.names) == template
    assert template.match("Fill {slot_1} and {name} for Ada, thanks.") == {template.names[0]: "Ada"}


def test_a_slot_filled_with_something_that_looks_like_a_slot_stays_verbatim() -> None:
    template = template_of(("Hello ", ", welcome to ", "."))
    values = template.match("Hello {slot_2}, welcome to {slot_1}.")
    assert values == {"slot_1": "{slot_2}", "slot_2": "{slot_1}"}


@given(st.lists(st.text(max_size=20), min_size=1, max_size=5), st.data())
def test_a_match_gives_back_the_text_byte_for_byte(constants: list[str], data: st.DataObject) -> None:
    inner = [one or "|" for one in constants]
    template = template_of(tuple(inner))
    values = [data.draw(st.text(max_size=20)) for _ in template.names]
    text = filled_by(template, dict(zip(template.names, values, strict=True)))
    found = template.match(text)
    assert found is not None
    assert filled_by(template, found) == text


@given(st.text(max_size=200), st.text(max_size=200))
def test_what_two_texts_have_in_common_fits_both(one: str, other: str) -> None:
    template = template_of(merged((one,), other))
    assert template.match(one) is not None
    assert template.match(other) is not None


def test_who_sent_a_prompt_is_kept_only_until_it_is_shown() -> None:
    learner = Learner(LearnRules(units=3, least=16))
    shown = [
        learner.observe(f"You help {name} with parcels.", name, NOW) for name in ("Ada", "Bo", "Cy", "Di")
    ]
    (kind,) = [one for one in shown if one is not None]
    for n in range(100):
        learner.observe(f"You help person {n} with parcels.", f"u-{n}", NOW)
    assert kind.units == set()
    short = Learner(LearnRules(units=3, least=1000))
    for n in range(100):
        short.observe(f"You help {n} with parcels.", f"u-{n}", NOW)
    assert all(len(one.units) <= 3 for one in short.kinds())
