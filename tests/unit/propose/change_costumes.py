"""Failed prompt changes, the costumes in which they may come back, and edits that really differ."""

import random
import re
import unicodedata
from collections.abc import Callable

from prx.domain.changes import AddExample, AddLine, DeleteLine, PromptOp, PromptPatch, ReplaceLine

OLD = "- card_arrival: questions about a card in the mail"
OTHER = "- top_up: adding money to the account"
FAILED: tuple[PromptPatch, ...] = tuple(
    PromptPatch(prompt="main", ops=ops)
    for ops in (
        (AddLine(text="Ask for the order number before you promise a refund within 14 days."),),
        (AddLine(text="Answer in two short sentences and name the next step for the customer."),),
        (AddLine(text="Do not guess a delivery date; say that the carrier will confirm it."),),
        (AddLine(text="- fees: charges, commission, costs of a payment abroad, hidden deductions"),),
        (AddLine(text="- exchange: currency, rate, conversion, euros, dollars, market price"),),
        (AddLine(text="Pide el número de pedido antes de prometer un reembolso en 14 días."),),
        (AddLine(text="Responde siempre con dos frases breves y menciona el siguiente paso concreto."),),
        (AddLine(text="Спроси номер заказа, прежде чем обещать возврат денег в течение 14 дней."),),
        (AddLine(text="Отвечай двумя короткими предложениями, назови клиенту следующий шаг."),),
        (AddLine(text="在承诺退款之前询问订单号码，并说明需要十四天的处理时间。"),),
        (AddLine(text="返金を約束する前に注文番号を確認し、処理に十四日かかると説明する。"),),
        (AddLine(text="환불을 약속하기 전에 주문 번호를 물어보고 처리에 십사일이 걸린다고 설명하세요."),),
        (ReplaceLine(old=OLD, new=f"{OLD} (delivery, tracking, courier, parcel)"),),
        (ReplaceLine(old=OLD, new=f"{OLD} (доставка, курьер, посылка, отслеживание)"),),
        (ReplaceLine(old=OLD, new="- card_arrival: when the customer waits for plastic sent by post"),),
        (ReplaceLine(old=OTHER, new=f"{OTHER} (deposit, recharge, loading, wallet balance)"),),
        (DeleteLine(old=OTHER),),
        (AddExample(user="the courier never rang my bell today", answer="card_arrival"),),
        (
            AddLine(text="- pin: forgotten code, blocked code, changing the code at a cash machine"),
            AddLine(text="- limits: highest amount, daily maximum, raising what may be spent"),
        ),
        (
            ReplaceLine(old=OLD, new=f"{OLD} (shipment, postman, envelope)"),
            AddLine(text="When two topics fit choose the more specific one."),
        ),
    )
)

Rewrite = Callable[[str, random.Random], str]
_CYRILLIC = str.maketrans("aceopxyABEHKMOPCTX", "асеорхуАВЕНКМОРСТХ")
_HIDDEN = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u202a\u202c\u2066\u2069\u061c\U000e0041"


def _case(text: str, rng: random.Random) -> str:
    return rng.choice([str.upper, str.lower, str.title, str.swapcase])(text)


def _spaces(text: str, rng: random.Random) -> str:
    return re.sub(" ", lambda _: rng.choice(["  ", "\t", "\u00a0", "\u3000", " "]), f"  {text} ")


def _marks(text: str, rng: random.Random) -> str:
    swapped = text.replace(",", rng.choice([";", " /", " -", ","])).replace(".", rng.choice(["!", "", "…"]))
    return swapped + rng.choice(["!", " .", " ;-)", ""])


def _hidden(text: str, rng: random.Random) -> str:
    return "".join(char + (rng.choice(_HIDDEN) if rng.random() < 0.2 else "") for char in text)


def _lookalikes(text: str, rng: random.Random) -> str:
    return "".join(char.translate(_CYRILLIC) if rng.random() < 0.5 else char for char in text)


def _wide(text: str, rng: random.Random) -> str:
    return "".join(
        chr(ord(char) + 0xFEE0) if "!" <= char <= "~" and rng.random() < 0.5 else char for char in text
    )


def _decomposed(text: str, rng: random.Random) -> str:
    return unicodedata.normalize(rng.choice(["NFD", "NFKD", "NFC"]), text)


def _accents(text: str, rng: random.Random) -> str:
    return "".join(
        char + "\u0301" if char.isascii() and char.isalpha() and rng.random() < 0.3 else char for char in text
    )


def _bullet(text: str, rng: random.Random) -> str:
    return rng.choice(["- ", "* ", "1. ", "(2) ", "• ", "> ", "### "]) + text.removeprefix("- ")


def _polite(text: str, rng: random.Random) -> str:
    return rng.choice(["Please note: ", "Kindly ", "Important: ", "Also, ", "Remember to "]) + text


def _styled(text: str, rng: random.Random) -> str:
    around = rng.choice(["**", "_", '"', "“", "`"])
    return f"{around}{text}{around}"


def _comment(text: str, rng: random.Random) -> str:
    return f"{text} <!-- revision {rng.randint(2, 99)} -->"


def _hyphens(text: str, rng: random.Random) -> str:
    return re.sub(r"(?<=\w{3})(?=\w{3})", lambda _: "\u00ad" if rng.random() < 0.5 else "", text)


def _spelled_out(text: str, rng: random.Random) -> str:
    return " ".join(text.replace(" ", ""))


def _order(text: str, rng: random.Random) -> str:
    head, mark, tail = text.partition("(" if "(" in text else ": ")
    items = re.split(r", ", tail.rstrip(")."))
    rng.shuffle(items)
    return f"{head}{mark}{', '.join(items)}{')' if mark == '(' else ''}"


COSTUMES: tuple[Rewrite, ...] = (
    _case,
    _spaces,
    _marks,
    _hidden,
    _lookalikes,
    _wide,
    _decomposed,
    _accents,
    _bullet,
    _polite,
    _styled,
    _comment,
    _hyphens,
    _order,
    _spelled_out,
)


def dressed(patch: PromptPatch, rng: random.Random) -> PromptPatch:
    """The same change in one to three costumes, its operations perhaps in another order."""
    chosen = rng.sample(COSTUMES[:-1], rng.randint(1, 3)) if rng.random() < 0.93 else [_spelled_out]

    def wear(text: str) -> str:
        for costume in chosen:
            text = costume(text, rng)
        return text

    ops = [_dress(op, wear) for op in patch.ops]
    if chosen != [_spelled_out]:
        rng.shuffle(ops)
    return PromptPatch(prompt=patch.prompt, ops=tuple(ops))


def _dress(op: PromptOp, wear: Callable[[str], str]) -> PromptOp:
    if isinstance(op, AddLine):
        return AddLine(text=wear(op.text))
    if isinstance(op, ReplaceLine):
        return ReplaceLine(old=op.old, new=wear(op.new))
    if isinstance(op, AddExample):
        return AddExample(user=wear(op.user), answer=op.answer)
    return op


_SENTENCES = (
    "Confirm the customer's name before any change of address.",
    "Offer a callback when the queue is longer than 5 minutes.",
    "- security: stolen phone, strange login, unknown device",
    "Explica los pasos en una lista numerada y corta.",
    "Предложи обратный звонок, если очередь длинная.",
    "如果客户生气，先道歉，然后给出解决办法。",
    "怒っている顧客にはまず謝罪し、解決策を示す。",
    "고객이 화가 났다면 먼저 사과하고 해결책을 제시하세요.",
    "Give the total with tax and say which tax it is.",
    "Stop after one clarifying question.",
)


def _new_text(text: str, rng: random.Random) -> str:
    return rng.choice(_SENTENCES)


def _fewer(text: str, rng: random.Random) -> str:
    words = text.split(" ")
    if len(words) < 4:
        return text[: len(text) // 2]
    return " ".join(words[: max(3, int(len(words) * 0.6))])


def _more(text: str, rng: random.Random) -> str:
    extra = ["invoice", "holiday", "branch", "passport", "signature", "insurance", "complaint"]
    return f"{text} {' '.join(rng.sample(extra, 3))}"


def _negated(text: str, rng: random.Random) -> str:
    return f"Never do this: {text}"


def _numbers(text: str, rng: random.Random) -> str:
    if re.search(r"\d", text):
        return re.sub(r"\d+", lambda m: str(int(m.group()) + rng.randint(1, 60)), text)
    return f"{text} At most {rng.randint(2, 9)} times a day, with proof of purchase."


REAL: tuple[Rewrite, ...] = (_new_text, _fewer, _more, _negated, _numbers)


def really_changed(patch: PromptPatch, rng: random.Random) -> PromptPatch:
    """A change that says something else: other words, numbers, a negation, another line or prompt."""
    if rng.random() < 0.1:
        return PromptPatch(prompt="second", ops=patch.ops)
    first = patch.ops[0]
    if isinstance(first, DeleteLine):
        return PromptPatch(prompt="main", ops=(DeleteLine(old=OLD),))
    if isinstance(first, ReplaceLine) and rng.random() < 0.3:
        target = OTHER if first.old == OLD else OLD
        added = first.new.removeprefix(first.old) if first.new.startswith(first.old) else " (other words)"
        return PromptPatch(prompt="main", ops=(ReplaceLine(old=target, new=target + added),))
    change = rng.choice(REAL)
    ops = tuple(_dress(op, lambda text: change(text, rng)) for op in patch.ops)
    return PromptPatch(prompt="main", ops=ops)
