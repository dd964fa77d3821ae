"""A bank's message desk: real customer messages, the topics its app tells apart, and its first prompt."""

import csv
from functools import cache
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
- card_arrival: tracking and delivery of a new card, a card that hasn't arrived in the mail, how many weeks
- lost_or_stolen_card: the card is lost, stolen, taken or missing, or the wallet is gone
- change_pin: change the PIN
- declined_card_payment: a card payment was declined or rejected, didn't work or go through
- transfer_not_received_by_recipient: a recipient or friend hasn't got the transfer or transaction, takes long
- exchange_rate: the exchange rate of a foreign currency
- request_refund: other questions about orders
- cash_withdrawal_charge: a fee or charge for a cash withdrawal at an ATM
- card_payment_not_recognised: a payment in the app or statement that I don't recognise or didn't make
- pending_top_up: a top up is pending or not complete
- pin_blocked: problems with the PIN
- cancel_transfer: cancel or undo a transfer, a mistake or the wrong account
"""
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
FOLLOW_UPS = ("Any answer yet?", "So?", "Is anybody there?", "Did somebody look into it?")
NOTES = {
    "pending_top_up": "A top up by card is there at once, by bank transfer it takes 2 days.",
    "cash_withdrawal_charge": "Cash withdrawals abroad cost 1.5 % from the third one in a month on.",
    "card_arrival": "A new card takes 5 working days, and 10 to an address abroad.",
    "exchange_rate": "The exchange rate is fixed when the payment is booked, not when it is made.",
    "request_refund": "A refund of a purchase is on the account after 7 days.",
    "cancel_transfer": "A transfer can be cancelled within 30 minutes, except to accounts at this bank.",
}
_SAID = ("{}", "Note: {}", "As said: {}", "For all: {}")
_TOPICS = (
    ("pins", ("pin",)),
    ("transfers", ("transfer", "recipient", "top up", "top-up", "topup", "transaction")),
    ("cards", ("card",)),
)
OTHER_TOPIC = NOTED_TOPIC = "money"


@cache
def messages() -> tuple[tuple[str, str], ...]:
    """The shipped messages with their labels (BANKING77 subset, see data/NOTICE.txt)."""
    text = files("prx.demo").joinpath("data/banking77_subset.csv").read_text(encoding="utf-8")
    return tuple((row["text"], row["intent"]) for row in csv.DictReader(text.splitlines()))


@cache
def topic_of(message: str) -> str:
    """The rough topic by which the app routes to a model; from the message alone, and not the label."""
    said = message.lower()
    return next((topic for topic, marks in _TOPICS if any(mark in said for mark in marks)), OTHER_TOPIC)


def note_about(label: str, said: int) -> str:
    """A clerk's note on a subject of `NOTES`, in one of a few wordings."""
    return _SAID[said % len(_SAID)].format(NOTES[label])
