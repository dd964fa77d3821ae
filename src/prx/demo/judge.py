"""A simulated judge: it reads the material with a guide of its own and replies as the rubric asks.

It is another reader than the simulated agent, and it errs: it knows neither the truth nor who is asking.
"""

import json

from prx.demo.simulated import choose_label
from prx.models.port import ChatReply, ChatRequest

GUIDE = """\
- card_arrival: tracking delivery of a new card sent by mail, how long weeks until it arrives
- lost_or_stolen_card: lost or stolen card, wallet gone, missing
- change_pin: change my PIN to another one, where to change it
- declined_card_payment: payment with the card declined at a shop, card not accepted
- transfer_not_received_by_recipient: friend or recipient hasn't received or seen a transfer, not arrived
- exchange_rate: exchange rate, foreign currency
- request_refund: refund of an item or purchase that was bought or ordered, money back, changed mind
- cash_withdrawal_charge: fee, charge or extra charged for cash withdrawal at an ATM, withdrew cash
- card_payment_not_recognised: payment in the app or statement that I don't recognise or didn't make
- pending_top_up: top up is pending, not gone through or not complete
- pin_blocked: unblock the PIN, entered the wrong PIN too many times, locked
- cancel_transfer: cancel a transfer to the wrong account, transaction made by mistake
"""
_GOOD, _POOR = 4, 1


class SimulatedJudge:
    """A ChatModel that scores one answer by its own reading of the request."""

    @property
    def name(self) -> str:
        """Model name as recorded."""
        return "simulated-judge"

    def complete(self, request: ChatRequest) -> ChatReply:
        """The rubric's JSON object for the material in the user message."""
        material = json.loads(request.messages[-1].content)
        believed = material.get("reference") or choose_label(GUIDE, material["request"])
        mark = _GOOD if material["answer"].strip() == believed else _POOR
        marks = {"correct": mark, "complete": mark, "follows": _GOOD, "clear": _GOOD, "safe": True}
        return ChatReply(text=json.dumps({"id": material["id"], **marks}), model=self.name, cost_usd=0.0)
