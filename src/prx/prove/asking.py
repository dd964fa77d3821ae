"""Questions to a judge model: the rubric, the material as quoted data, and a strict reading of the reply."""

import hashlib
import json
import random
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal, TypeVar

import msgspec

from prx.domain.records import Message
from prx.models.port import ChatModel, ChatRequest
from prx.prove.port import Unscored

SCORE, PREFERENCE = "score", "preference"
AXES = ("correct", "complete", "follows", "clear")
_TOP = 4
_MATERIAL = 20_000


@dataclass(frozen=True, slots=True)
class JudgeTask:
    """One request with the answers to compare; `reference` is the right answer where it is known."""

    task_id: str
    request: str
    stable: str
    candidate: str
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Rated:
    """Mean over the rubric's axes in 0..1, and whether the answer is safe."""

    score: float
    safe: bool


@dataclass(frozen=True, slots=True)
class Preferred:
    """`candidate`: 1 better, 0.5 equal, 0 worse. `place`: `first` or `second` when the answer at that place
    won in both orders, which says nothing of the answers; else empty."""

    candidate: float
    place: str
    candidate_safe: bool
    stable_safe: bool


class _ScoreReply(msgspec.Struct, forbid_unknown_fields=False):
    id: str
    correct: int
    complete: int
    follows: int
    clear: int
    safe: bool


class _PreferenceReply(msgspec.Struct, forbid_unknown_fields=False):
    id: str
    winner: Literal["first", "second", "tie"]
    unsafe: list[Literal["first", "second"]] = []


_Reply = TypeVar("_Reply", _ScoreReply, _PreferenceReply)


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks one judge. `rng` gives the check words: a reply must repeat the one of its question.

    A candidate cannot foresee the check word, so a reply that it put into its own answer never counts.
    """

    judge: ChatModel
    rng: random.Random
    max_tokens: int = 1000

    def score(self, request: str, answer: str, reference: str | None) -> Rated | Unscored:
        """Rubric score of one answer. Raises: ModelUnavailable, BudgetSpent."""
        reply = self._ask(SCORE, {"request": request, "answer": answer, "reference": reference})
        parsed = self._read(reply, _ScoreReply)
        if isinstance(parsed, Unscored):
            return parsed
        marks = [getattr(parsed, axis) for axis in AXES]
        if not all(0 <= mark <= _TOP for mark in marks):
            return Unscored(f"a mark of the judge is outside of 0 to {_TOP}")
        return Rated(sum(marks) / (_TOP * len(marks)), parsed.safe)

    def prefer(
        self, request: str, stable: str, candidate: str, reference: str | None
    ) -> Preferred | Unscored:
        """Which answer is better, asked in both orders; a winner that depends on the order is a tie."""
        winners: list[float] = []
        places: list[str] = []
        unsafe = {"stable": False, "candidate": False}
        for names in (("stable", "candidate"), ("candidate", "stable")):
            answers = {"stable": stable, "candidate": candidate}
            material = {
                "request": request,
                "first": answers[names[0]],
                "second": answers[names[1]],
                "reference": reference,
            }
            parsed = self._read(self._ask(PREFERENCE, material), _PreferenceReply)
            if isinstance(parsed, Unscored):
                return parsed
            for blamed in parsed.unsafe:
                unsafe[names[0] if blamed == "first" else names[1]] = True
            won = {"first": names[0], "second": names[1], "tie": "tie"}[parsed.winner]
            places.append(parsed.winner)
            winners.append({"candidate": 1.0, "stable": 0.0, "tie": 0.5}[won])
        place = places[0] if places[0] == places[1] != "tie" else ""
        agreed = winners[0] if winners[0] == winners[1] else 0.5
        return Preferred(agreed, place, not unsafe["candidate"], not unsafe["stable"])

    def _ask(self, mode: str, material: dict[str, str | None]) -> tuple[str, str]:
        word = f"{self.rng.getrandbits(64):016x}"
        given = {"id": word, **{name: clipped(text) for name, text in material.items() if text is not None}}
        # every quote, line break and angle bracket is escaped: nothing in an answer can close its field
        body = json.dumps(given, ensure_ascii=False).replace("<", "\\u003c").replace(">", "\\u003e")
        request = ChatRequest(
            model="",
            messages=(Message(role="system", content=rubric(mode)), Message(role="user", content=body)),
            temperature=0.0,
            max_tokens=self.max_tokens,
        )
        return word, self.judge.complete(request).text

    def _read(self, asked: tuple[str, str], kind: type[_Reply]) -> _Reply | Unscored:
        word, text = asked
        try:
            reply = msgspec.json.decode(_unfenced(text), type=kind)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return Unscored("the judge's reply is not the one JSON object that was asked for")
        if reply.id != word:
            return Unscored("the judge's reply does not repeat the check word")
        return reply


@cache
def rubric(mode: str) -> str:
    """Text of the rubric for `score` or `preference`."""
    return resources.files("prx.prove").joinpath(f"rubrics/{mode}.md").read_text(encoding="utf-8")


def rubric_hash(mode: str) -> str:
    """Hash of the rubric, recorded with every judgement: scores compare only under one rubric."""
    return f"sha256:{hashlib.sha256(rubric(mode).encode()).hexdigest()}"


def clipped(text: str) -> str:
    """Beginning and end of an overlong text, with what is left out said between."""
    if len(text) <= _MATERIAL:
        return text
    half = _MATERIAL // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def _unfenced(text: str) -> str:
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and text.count("```") == 2:
        return text[3:-3].removeprefix("json").strip()
    return text
