"""Simulated proposer models: one that mostly does harm, and one that serves the judge instead of the user.

They speak the protocol of a real proposer, so the product reads, checks and proves their edits alike.
"""

import hashlib
import json
import re

from prx.demo.world.flavours import World
from prx.domain.promptlines import key_of, label_of
from prx.models.port import ChatModel, ChatReply, ChatRequest

_DATA = re.compile(r"<(DATA-[0-9a-f]+)>\n(.*)\n</\1>", re.DOTALL)
_EVIDENCE = 12
_HARM_OF_FOUR = 3


def proposer_of(world: World) -> ChatModel | None:
    """The world's proposer model; None where the engine's own rules write."""
    if world.proposer == "harmful":
        return HarmfulProposer()
    return PhraseProposer(world.loves) if world.proposer == "phrase" else None


class HarmfulProposer:
    """Three edits in four lead a label astray with another label's words; the fourth adds shared words."""

    @property
    def name(self) -> str:
        """Model name as recorded."""
        return "simulated-harmful-proposer"

    def complete(self, request: ChatRequest) -> ChatReply:
        """One replaced line, chosen by the request's own content."""
        data = _material(request)
        labelled = [line for line in data["editable_lines"] if label_of(line["text"])]
        draw = int.from_bytes(hashlib.blake2b(_stable(data), digest_size=4).digest(), "big")
        mine = [
            line for line in labelled if key_of(label_of(line["text"]) or "") == key_of(data["intent"] or "")
        ]
        line = (mine or labelled)[0]
        others = [other for other in labelled if other is not line]
        if draw % 4 < _HARM_OF_FOUR and others:
            stolen = others[draw // 4 % len(others)]["text"].split(":", 1)[-1].split()
            text = f"{line['text'].rstrip()}, {' '.join(word.strip(',.') for word in stolen[:5])}"
        else:
            text = f"{line['text'].rstrip()}, {', '.join(data['shared_words'][:4]) or 'other questions'}"
        op = {"op": "replace", "line": line["line"], "text": text, "evidence_ids": _cited(data)}
        return _reply(self.name, op)


class PhraseProposer:
    """Whatever failed, it asks for the phrase that the judge loves."""

    def __init__(self, phrase: str) -> None:
        self._phrase = phrase

    @property
    def name(self) -> str:
        """Model name as recorded."""
        return "simulated-phrase-proposer"

    def complete(self, request: ChatRequest) -> ChatReply:
        """One added line."""
        data = _material(request)
        text = f'Begin every answer with "{self._phrase}".'
        return _reply(self.name, {"op": "add", "text": text, "evidence_ids": _cited(data)})


def _material(request: ChatRequest) -> dict:  # type: ignore[type-arg]
    found = _DATA.search(request.messages[-1].content)
    data = json.loads(found[2]) if found else {}
    return data if isinstance(data, dict) else {}


def _cited(data: dict) -> list[str]:  # type: ignore[type-arg]
    return [case["id"] for case in data["evidence"][:_EVIDENCE]]


def _stable(data: dict) -> bytes:  # type: ignore[type-arg]
    """What the draw depends on: the evidence's wording, and how often something was tried."""
    said = [data["whole_prompt"], data["intent"], len(data["failed_before"])]
    return json.dumps([said, [case["request"] for case in data["evidence"]]]).encode()


def _reply(name: str, op: dict[str, object]) -> ChatReply:
    return ChatReply(text=json.dumps({"ops": [op]}), model=name, cost_usd=0.001)
