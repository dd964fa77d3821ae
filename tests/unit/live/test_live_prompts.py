import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx.live.prompts import fixed_sections, placeholders, render

FIXED = "Help.\n<!-- prx:fixed -->\nNever promise {what}.\n<!-- /prx:fixed -->\nBe kind.\n"


@pytest.mark.parametrize(
    ("template", "values", "text"),
    [
        ("Hi {name}!", {"name": "Bo"}, "Hi Bo!"),
        ("Hi {name}!", {}, "Hi {name}!"),
        ("{a}{b}{a}", {"a": 1, "b": None}, "1None1"),
        ('{"json": {"name": 1}, "set": {}}', {"name": "x", "json": "y"}, '{"json": {"name": 1}, "set": {}}'),
        ("{ name } {0} {name!r} {name:>3}", {"name": "x"}, "{ name } {0} {name!r} {name:>3}"),
        ("100% {x} \\{x} $x", {"x": "\\1"}, "100% \\1 \\\\1 $x"),
        ("", {"x": 1}, ""),
    ],
)
def test_only_the_names_of_given_values_are_filled(
    template: str, values: dict[str, object], text: str
) -> None:
    assert render(template, values) == text


def test_a_value_is_never_read_again() -> None:
    values = {"a": "{b} <!-- prx:fixed -->", "b": "{a}"}
    assert render("{a}|{b}", values) == "{b} <!-- prx:fixed -->|{a}"


def test_the_markers_of_fixed_sections_do_not_reach_the_model_and_their_text_does() -> None:
    assert render(FIXED, {"what": "refunds"}) == "Help.\nNever promise refunds.\nBe kind.\n"


def test_fixed_sections_and_placeholders_are_found() -> None:
    assert fixed_sections(FIXED) == ("\nNever promise {what}.\n",)
    assert fixed_sections("a <!-- prx:fixed -->b") == ("b",)
    assert fixed_sections("nothing") == ()
    assert placeholders('{a} {b_2} {"c": 1} {2} {a}') == {"a", "b_2"}


@given(st.text(alphabet='ab{}"\n ', max_size=60))
def test_a_template_without_values_is_served_as_it_is(template: str) -> None:
    assert render(template, {}) == template


@given(st.lists(st.text(alphabet="xy{} ", max_size=5), min_size=2, max_size=6), st.text(max_size=10))
def test_filling_keeps_everything_around_the_placeholders(around: list[str], value: str) -> None:
    pieces = [piece.replace("{", "(") for piece in around]
    assert render("{v}".join(pieces), {"v": value}) == value.join(pieces)
