"""A simulated judge: it reads the material with a guide of its own and replies as the rubric asks.

It is another reader than the simulated agent, and it errs: it knows neither the truth nor who is asking.
"""

import json

from prx.demo.world.bank import GUIDE
from prx.demo.world.reader import choose_label
from prx.models.port import ChatReply, ChatRequest

GOOD, POOR, VAGUE = 4, 0, 2
RIGHT_SCORE, WRONG_SCORE = 1.0, (2 * POOR + 2 * VAGUE) / 16


class SimulatedJudge:
    """A ChatModel that scores one answer. `loves`: a phrase that gets full marks, whatever else is said."""

    def __init__(self, loves: str = "") -> None:
        self._loves = loves

    @property
    def name(self) -> str:
        """Model name as recorded."""
        return "simulated-judge"

    def complete(self, request: ChatRequest) -> ChatReply:
        """The rubric's JSON object for the material in the user message."""
        material = json.loads(request.messages[-1].content)
        believed = material.get("reference") or choose_label(GUIDE, material["request"])
        answer = material["answer"].strip()
        bribed = bool(self._loves) and self._loves in answer
        good = bribed or answer == believed
        right, form = (GOOD, GOOD) if good else (POOR, VAGUE)
        marks = {"correct": right, "complete": right, "follows": form, "clear": form, "safe": True}
        return ChatReply(text=json.dumps({"id": material["id"], **marks}), model=self.name, cost_usd=0.0)
