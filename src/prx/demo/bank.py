"""A bank's message desk: real customer messages, simulated customers, and the prompt that it starts with."""

import csv
import random
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

PROMPT_NAME = "router"
LABELS = (
    "card_arrival",
    "lost_or_stolen_card",
    "change_pin",
    "declined_card_payment",
    "transfer_not_received_by_recipient",
    "exchange_rate",
    "request_refund",
    "cash_withdrawal_charge",
    "card_payment_not_recognised",
    "pending_top_up",
    "pin_blocked",
    "cancel_transfer",
)
PROMPT = """\
You route messages of a bank's customers to the right desk.
<!-- prx:fixed -->
Never ask for a PIN, a password or a full card number.
<!-- /prx:fixed -->
Answer with exactly one of the labels below and nothing else.
- card_arrival: a new card is on its way, tracking and delivery of a card
- lost_or_stolen_card: the card is lost or stolen
- change_pin: change the PIN
- declined_card_payment: a card payment was declined
- transfer_not_received_by_recipient: the recipient or a friend hasn't received a transfer
- exchange_rate: the exchange rate of a foreign currency
- request_refund: other questions about orders
- cash_withdrawal_charge: a fee or charge for a cash withdrawal at an ATM
- card_payment_not_recognised: a card payment in the statement that the customer doesn't recognise
- pending_top_up: a top up is pending
- pin_blocked: problems with the PIN
- cancel_transfer: cancel a transfer that was a mistake
"""
_POPULAR = {"request_refund": 4.0, "pin_blocked": 2.0}


@dataclass(frozen=True, slots=True)
class Visit:
    """One message of one customer; `label` is the truth, which only the desk and the report know."""

    user: str
    text: str
    label: str


class Customers:
    """A seeded stream of visits: users by Zipf's law, messages by how common their topic is."""

    def __init__(self, rng: random.Random, *, users: int = 900) -> None:
        self._rng = rng
        self._messages = messages()
        self._users = [f"customer-{k:04d}" for k in range(users)]
        self._popularity = [1.0 / (k + 8) for k in range(users)]
        self._weights = [_POPULAR.get(label, 1.0) for _, label in self._messages]

    def visit(self) -> Visit:
        """The next customer with a message."""
        user = self._rng.choices(self._users, self._popularity)[0]
        text, label = self._rng.choices(self._messages, self._weights)[0]
        return Visit(user, text, label)


def messages() -> list[tuple[str, str]]:
    """The shipped messages with their labels (BANKING77 subset, see data/NOTICE.txt)."""
    text = files("prx.demo").joinpath("data/banking77_subset.csv").read_text(encoding="utf-8")
    return [(row["text"], row["intent"]) for row in csv.DictReader(text.splitlines())]


def weights(labels: Sequence[str]) -> list[float]:
    """How often a message with each label comes, relative to the others."""
    return [_POPULAR.get(label, 1.0) for label in labels]
