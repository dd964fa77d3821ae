"""Shipped checkers against answers that are right, wrong, and shaped to look right."""

import json
from typing import Any

import pytest

from prx.domain.errors import InvalidInput
from prx.prove.checkers import ExactLabel, JsonSchema, find_checker
from prx.prove.port import Truth, Unscored

LABELS = frozenset({"card_lost", "card_lost_abroad", "card_arrival", "卡片丢失"})


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("card_lost", 1.0),
        (" Card_Lost. ", 1.0),
        ("`card_lost`", 1.0),
        ("ｃａｒｄ_ｌｏｓｔ", 1.0),
        ("card_lost_abroad", 0.0),
        ("card_lost or card_arrival", 0.0),
        ("", 0.0),
        ("not card_lost", 0.0),
    ],
)
def test_an_exact_label_is_the_label_and_nothing_else(answer: str, right: float) -> None:
    assert find_checker("exact_label").check(answer, Truth("card_lost", LABELS)) == right


@pytest.mark.parametrize(
    ("answer", "expected", "right"),
    [
        ("I think it is card_lost, sorry.", "card_lost", 1.0),
        ("Label: card_lost_abroad", "card_lost_abroad", 1.0),
        ("Label: card_lost_abroad", "card_lost", 0.0),
        ("card_lost, card_arrival, card_lost_abroad", "card_lost", 0.0),
        ("card_lost_abroad and card_lost", "card_lost_abroad", 0.0),
        ("mycard_lost", "card_lost", 0.0),
        ("标签：卡片丢失。", "卡片丢失", 1.0),
        ("", "card_lost", 0.0),
        ("x" * 30_000 + " card_lost", "card_lost", 0.0),
    ],
)
def test_a_contained_label_is_the_only_one_named(answer: str, expected: str, right: float) -> None:
    assert find_checker("checker:contains_label").check(answer, Truth(expected, LABELS)) == right


SCHEMA = {
    "type": "object",
    "required": ["amount", "currency"],
    "properties": {
        "amount": {"type": "number", "minimum": 0},
        "currency": {"enum": ["EUR", "USD"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 2},
        "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
        "count": {"type": "integer"},
    },
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ({"amount": 3, "currency": "EUR"}, 1.0),
        ({"amount": 3.5, "currency": "USD", "tags": ["a", "b"], "note": None, "count": 2.0}, 1.0),
        ({"amount": -1, "currency": "EUR"}, 0.0),
        ({"amount": True, "currency": "EUR"}, 0.0),
        ({"amount": "3", "currency": "EUR"}, 0.0),
        ({"amount": 3}, 0.0),
        ({"amount": 3, "currency": "GBP"}, 0.0),
        ({"amount": 3, "currency": "EUR", "extra": 1}, 0.0),
        ({"amount": 3, "currency": "EUR", "tags": ["a", "b", "c"]}, 0.0),
        ({"amount": 3, "currency": "EUR", "tags": ["longer"]}, 0.0),
        ({"amount": 3, "currency": "EUR", "note": 1}, 0.0),
        ({"amount": 3, "currency": "EUR", "count": 2.5}, 0.0),
        ([], 0.0),
    ],
)
def test_an_answer_fits_its_schema_or_not(answer: Any, right: float) -> None:
    by_task = find_checker("json_schema").check(json.dumps(answer), Truth(json.dumps(SCHEMA)))
    assert by_task == JsonSchema(SCHEMA).check(json.dumps(answer), Truth(None)) == right


@pytest.mark.parametrize("answer", ["", "{", "here: {}", "[" * 100_000, '{"amount": 1}{"currency": "EUR"}'])
def test_an_answer_that_is_not_one_json_value_is_wrong(answer: str) -> None:
    assert JsonSchema(SCHEMA).check(answer, Truth(None)) == 0.0


@pytest.mark.parametrize("schema", ['{"pattern": "^a"}', '{"type": "text"}', "7", "no json", ""])
def test_a_schema_that_is_not_understood_scores_nothing_instead_of_passing(schema: str) -> None:
    assert isinstance(find_checker("json_schema").check("{}", Truth(schema)), Unscored)


def test_a_pattern_must_match_the_whole_answer() -> None:
    checker = find_checker("regex")
    assert checker.check(" AB-123\n", Truth(r"[A-Z]{2}-\d{3}")) == 1.0
    assert checker.check("see AB-123", Truth(r"[A-Z]{2}-\d{3}")) == 0.0
    assert isinstance(checker.check("AB", Truth("(")), Unscored)


@pytest.mark.parametrize("name", ["exact_label", "contains_label", "regex", "json_schema"])
def test_an_unknown_truth_is_unscored_not_wrong(name: str) -> None:
    assert isinstance(find_checker(name).check("card_lost", Truth(None)), Unscored)


def test_checkers_are_found_by_name_and_own_ones_come_first() -> None:
    own = ExactLabel(name="mine")
    assert find_checker("checker:mine", {"mine": own}) is own
    with pytest.raises(
        InvalidInput, match=r"no checker is called 'nope'; known: contains_label, exact_label"
    ):
        find_checker("checker:nope")
