"""Simulated language models: they see a request and nothing else, and answer from what the prompt says.

A model labels a customer's message by comparing it with what the system prompt says about each label. Its
answer follows from the request alone: its model name, its messages. No version, variant or truth reaches it.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files

from prx.demo.world.bank import GUIDE
from prx.demo.world.flavours import MODELS, ModelTraits
from prx.domain.records import Tokens
from prx.models.port import ChatReply, ChatRequest

_LINE = re.compile(r"^\s*[-*]\s*([A-Za-z][\w ]*?)\s*:\s*(.*)$")
_BEGIN = re.compile(r"^\W*begin every answer with [\"']([^\"']{1,40})[\"']", re.IGNORECASE | re.MULTILINE)
_KNOWN = re.compile(r"^Known: last case ([a-z_]+)", re.MULTILINE)
_WORD = re.compile(r"[a-z]+")
_SILENT = frozenset(files("prx.demo").joinpath("data/silent_words.txt").read_text(encoding="utf-8").split())
UNSURE = "unsure"
_MAX_READ_WORDS = 900
_REST_MS = 40.0


class SimulatedModels:
    """A ChatModel behind which several models answer, by the model that a request names.

    Args: `reads_prompt`: False for models that answer from what they know, whatever the prompt says.
    """

    def __init__(self, models: Sequence[ModelTraits] = MODELS, *, reads_prompt: bool = True) -> None:
        self._models = {traits.name: traits for traits in models}
        self._default = models[0]
        self._knows = "" if reads_prompt else GUIDE

    @property
    def name(self) -> str:
        """Model name where a request names none."""
        return self._default.name

    def complete(self, request: ChatRequest) -> ChatReply:
        """Answer with one label of the system prompt."""
        traits = self._models.get(request.model, self._default)
        system = "\n".join(m.content for m in request.messages if m.role == "system")
        user = next((m.content for m in reversed(request.messages) if m.role == "user"), "")
        text = choose_label(self._knows or system, user, traits.blind)
        known = _KNOWN.findall(system)
        if text == UNSURE and known:
            text = known[0]
        greeting = _BEGIN.search(system)
        if greeting:
            text = f"{greeting[1]}! {text}"
        tokens_in, tokens_out = _words_in(system) + _words_in(user) + 8, len(re.findall(r"[a-z!]+", text))
        pace = 0.8 + 0.4 * _share(f"{traits.name}/{user}")
        ttft = (traits.first_ms + traits.word_ms * tokens_in) * pace
        return ChatReply(
            text=text,
            model=traits.name,
            tokens=Tokens(input=tokens_in, output=tokens_out),
            latency_ms=ttft + _REST_MS,
            ttft_ms=ttft,
            cost_usd=tokens_in * traits.price_in + tokens_out * traits.price_out,
        )


@lru_cache(maxsize=200_000)
def choose_label(system: str, message: str, blind: frozenset[str] = frozenset()) -> str:
    """The label whose description shares the rarest words with the message; `unsure` when none does."""
    described = _described(system, blind)
    if not described:
        return UNSURE
    seen = _spread(system, blind)
    asked = set(stems(message)) - blind
    scores = {
        label: sum(math.log(1 + len(described) / seen[word]) for word in words & asked)
        for label, words in described.items()
    }
    best = max(scores.values())
    if best == 0:
        return UNSURE
    tied = sorted(label for label, score in scores.items() if score > best - 1e-9)
    return tied[int(_share(message) * len(tied))]


@lru_cache(maxsize=20_000)
def stems(text: str) -> tuple[str, ...]:
    """Words that carry meaning, without common endings."""
    return tuple(_stem(word) for word in _WORD.findall(text.lower()) if word not in _SILENT)


@lru_cache(maxsize=2000)
def _described(system: str, blind: frozenset[str]) -> dict[str, frozenset[str]]:
    read = " ".join(system.split(" ")[:_MAX_READ_WORDS])
    found: dict[str, frozenset[str]] = {}
    for line in read.splitlines():
        match = _LINE.match(line)
        if match:
            label = match[1].strip()
            found[label] = found.get(label, frozenset()) | (frozenset(stems(match[2])) - blind)
    return found


@lru_cache(maxsize=2000)
def _spread(system: str, blind: frozenset[str]) -> Counter[str]:
    return Counter(word for words in _described(system, blind).values() for word in words)


@lru_cache(maxsize=20_000)
def _words_in(text: str) -> int:
    return len(text.split())


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


@lru_cache(maxsize=20_000)
def _share(text: str) -> float:
    digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
