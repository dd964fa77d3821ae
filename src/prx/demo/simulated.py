"""A simulated language model: it sees a request and nothing else, and answers from what the prompt says.

It labels a customer's message by comparing the message with what the system prompt says about each label.
Its answer depends only on the messages it is given: the same request always gives the same answer, and no
version, variant or truth reaches it.
"""

import hashlib
import math
import re
from collections import Counter
from functools import lru_cache
from importlib.resources import files

from prx.domain.records import Tokens
from prx.models.port import ChatReply, ChatRequest

_LINE = re.compile(r"^\s*[-*]\s*([A-Za-z][\w ]*?)\s*:\s*(.*)$")
_WORD = re.compile(r"[a-z]+")
_SILENT = frozenset(files("prx.demo").joinpath("data/silent_words.txt").read_text(encoding="utf-8").split())
_MAX_READ_WORDS = 900
_FIRST_TOKEN_MS = 420.0
_PER_PROMPT_TOKEN_MS = 2.0
_PRICE_IN, _PRICE_OUT = 0.6e-6, 2.4e-6


class SimulatedModel:
    """A ChatModel whose skill comes from the prompt. `name` is shown wherever it is used."""

    def __init__(self, name: str = "simulated-small", *, slowness: float = 1.0) -> None:
        self._name = name
        self._slowness = slowness

    @property
    def name(self) -> str:
        """Model name as recorded."""
        return self._name

    def complete(self, request: ChatRequest) -> ChatReply:
        """Answer with one label of the system prompt."""
        system = "\n".join(m.content for m in request.messages if m.role == "system")
        user = next((m.content for m in reversed(request.messages) if m.role == "user"), "")
        text = choose_label(system, user)
        tokens_in = len(system.split()) + len(user.split()) + 8
        jitter = 0.8 + 0.4 * _share(f"{self._name}/{system}/{user}")
        ttft = (_FIRST_TOKEN_MS + _PER_PROMPT_TOKEN_MS * tokens_in) * jitter * self._slowness
        tokens = Tokens(input=tokens_in, output=len(text.split("_")) + 1)
        cost = tokens_in * _PRICE_IN + (tokens.output or 0) * _PRICE_OUT
        return ChatReply(
            text=text,
            model=self._name,
            tokens=tokens,
            latency_ms=ttft + 40.0,
            ttft_ms=ttft,
            cost_usd=cost,
        )


@lru_cache(maxsize=200_000)
def choose_label(system: str, message: str) -> str:
    """The label whose description shares the rarest words with the message; `unsure` when none does."""
    described = _described(" ".join(system.split(" ")[:_MAX_READ_WORDS]) if system else "")
    if not described:
        return "unsure"
    seen = Counter(word for words in described.values() for word in words)
    asked = set(stems(message))
    scores = {
        label: sum(math.log(1 + len(described) / seen[word]) for word in words & asked)
        for label, words in described.items()
    }
    best = max(scores.values())
    if best == 0:
        return "unsure"
    tied = sorted(label for label, score in scores.items() if score == best)
    return tied[int(_share(message) * len(tied))]


def stems(text: str) -> list[str]:
    """Words that carry meaning, without common endings."""
    return [_stem(word) for word in _WORD.findall(text.lower()) if word not in _SILENT]


@lru_cache(maxsize=1000)
def _described(system: str) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for line in system.splitlines():
        match = _LINE.match(line)
        if match:
            label = match[1].strip()
            found[label] = found.get(label, frozenset()) | frozenset(stems(match[2]))
    return found


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def _share(text: str) -> float:
    digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
