"""Automix: a cheap model answers first; the answer is kept unless its surface makes it look unsure.

`confidence` is the chance that an answer is right, from what can be seen without another model: a logistic
function of its length, the question's length, how many numbers it holds, whether it announces a result,
and whether it ends where a sentence ends. Coefficients are fitted to the even rows of 659 real answers of
a cheap model to GSM8K (RouteLLM, Apache-2.0); on the odd rows AUC is 0.66 and the calibration error 0.03
(hedge words alone, as other routers use them: about 0.5). It is calibrated for such word problems only; for
other traffic the threshold has to be moved, which is what the strategy layer proposes. Two things are set
and not fitted: an empty answer is worth 0, and a phrase that admits not to know costs 1.5 on the logit,
since the fitted answers hold too few of them.
"""

import math
import re
from collections.abc import Callable
from typing import Final

VERIFIER: Final = "surface-1"
_INTERCEPT = 2.941
_ANSWER_LENGTH, _QUESTION_LENGTH, _NUMBERS = -0.160, -1.030, 0.442
_RESULT, _ENDS, _HEDGE = 1.360, 1.564, -1.5
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_ANNOUNCED = re.compile(
    r"####|\\boxed|\b(?:the )?(?:final )?answer(?: is|:)|\btherefore\b|\bin (?:total|summary|conclusion)\b|"
    r"\bso,? the\b",
    re.IGNORECASE,
)
_HEDGED = re.compile(
    r"\b(?:i think|i believe|maybe|perhaps|not sure|unsure|i (?:don['’]t|do not) know|cannot determine|"
    r"as an ai|unclear)\b|不确定|也许|大概",
    re.IGNORECASE,
)
_END = frozenset(".!?。！？)}`\"'0123456789")
_READ = 20_000


def confidence(question: str, answer: str) -> float:
    """Chance in 0..1 that `answer` is right, by `VERIFIER`; a pure function, so it can be recomputed."""
    answer, question = answer[:_READ], question[:_READ]
    if not answer.strip():
        return 0.0
    logit = (
        _INTERCEPT
        + _ANSWER_LENGTH * math.log1p(len(answer))
        + _QUESTION_LENGTH * math.log1p(len(question))
        + _NUMBERS * math.log1p(len(_NUMBER.findall(answer)))
        + _RESULT * bool(_ANNOUNCED.search(answer))
        + _ENDS * (answer.strip()[-1] in _END)
        + _HEDGE * bool(_HEDGED.search(answer))
    )
    return 1.0 / (1.0 + math.exp(-logit))


def escalated_answer(cheap: str, ask_premium: Callable[[], str]) -> tuple[str, bool]:
    """The premium answer and True; the cheap one and False when the premium call fails or says nothing."""
    try:
        better = ask_premium()
    except Exception:  # noqa: BLE001 - whatever the app's own call raises, there is an answer already
        return cheap, False
    return (better, True) if better.strip() else (cheap, False)
