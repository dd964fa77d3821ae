"""Shipped checkers for answers whose truth is known: a label, a schema, a pattern."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prx.domain.errors import InvalidInput
from prx.domain.plaintext import folded
from prx.prove.port import Checker, Truth, Unscored
from prx.prove.schema import fits

_MAX_ANSWER = 20_000
_EDGE = " \t\r\n.,;:!?\"'`*()[]{}<>。、：；！？「」『』“”‘’"
PREFIX = "checker:"


@dataclass(frozen=True, slots=True)
class ExactLabel:
    """Right when the answer is the label and nothing else; case, width and outer punctuation do not count."""

    name: str = "exact_label"

    def check(self, answer: str, truth: Truth) -> float | Unscored:
        """1.0 or 0.0; Unscored without an expected label."""
        if not truth.expected:
            return Unscored("the right label is not known")
        return float(_label(answer) == _label(truth.expected))


@dataclass(frozen=True, slots=True)
class ContainsLabel:
    """Right when the answer names the label, whole, and no other label of the task family."""

    name: str = "contains_label"

    def check(self, answer: str, truth: Truth) -> float | Unscored:
        """1.0 or 0.0; Unscored without an expected label."""
        if not truth.expected:
            return Unscored("the right label is not known")
        text, wanted = folded(answer[:_MAX_ANSWER]), _label(truth.expected)
        if len(answer) > _MAX_ANSWER or not _names(text, wanted):
            return 0.0
        # a longer label may contain the wanted one; a shorter one inside the wanted one is no other label
        others = {_label(label) for label in truth.labels} - {wanted}
        rest = text.replace(wanted, " ")
        return float(not any(_names(text if wanted in label else rest, label) for label in others))


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """Right when the answer is one JSON value that fits the expected JSON Schema (or `schema`).

    Checked keywords: type, enum, const, properties, required, additionalProperties, items, minItems,
    maxItems, minLength, maxLength, minimum, maximum, anyOf. A schema with another keyword is refused.
    """

    schema: Mapping[str, Any] | None = None
    name: str = "json_schema"

    def check(self, answer: str, truth: Truth) -> float | Unscored:
        """1.0 or 0.0; Unscored without a schema that can be read."""
        try:
            schema = self.schema if self.schema is not None else json.loads(truth.expected or "")
        except (ValueError, RecursionError):
            return Unscored("the expected value is no JSON Schema")
        try:
            value = json.loads(answer)
        except (ValueError, RecursionError):
            return 0.0
        try:
            return float(fits(value, schema))
        except InvalidInput as error:
            return Unscored(str(error))


@dataclass(frozen=True, slots=True)
class Regex:
    """Right when the whole answer, outer blanks aside, matches the expected pattern."""

    name: str = "regex"

    def check(self, answer: str, truth: Truth) -> float | Unscored:
        """1.0 or 0.0; Unscored without a pattern that compiles."""
        if not truth.expected:
            return Unscored("no pattern is expected")
        try:
            pattern = re.compile(truth.expected)
        except re.error as error:
            return Unscored(f"the expected pattern does not compile ({error})")
        return float(len(answer) <= _MAX_ANSWER and pattern.fullmatch(answer.strip()) is not None)


SHIPPED: Mapping[str, Checker] = {
    checker.name: checker for checker in (ExactLabel(), ContainsLabel(), JsonSchema(), Regex())
}


def find_checker(name: str, own: Mapping[str, Checker] | None = None) -> Checker:
    """Checker by name, with or without `checker:` before it; `own` ones come first. Raises: InvalidInput."""
    known = {**SHIPPED, **(own or {})}
    wanted = name.removeprefix(PREFIX)
    if wanted not in known:
        raise InvalidInput(f"no checker is called {wanted!r}; known: {', '.join(sorted(known))}")
    return known[wanted]


def _label(text: str) -> str:
    return folded(text).strip(_EDGE)


def _names(text: str, label: str) -> bool:
    return bool(label) and re.search(rf"(?<![\w-]){re.escape(label)}(?![\w-])", text) is not None
