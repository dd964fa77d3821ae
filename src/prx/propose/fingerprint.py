"""Whether a change is one that failed before, whatever it is dressed as."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from prx.domain.changes import (
    AddExample,
    AddLine,
    Change,
    DeleteLine,
    MemoryAdd,
    MemoryPatch,
    PromptOp,
    PromptPatch,
    ReplaceAll,
    ReplaceLine,
    StrategyPatch,
)
from prx.domain.codec import content_hash
from prx.domain.plaintext import folded, skeleton
from prx.domain.promptlines import label_of
from prx.domain.words import CJK, jaccard, words
from prx.propose.draft import PastChange

SIMILAR_FROM = 0.9
_NUMBER_STEP = 0.02
_COMMENT = re.compile(r"<!--.*?-->|/\*.*?\*/", re.DOTALL)
_LIST_MARK = re.compile(r"^\s*(?:[-*•·–—>#+]+|\(?\d{1,2}[.)]|\(?[a-z]\))\s+", re.MULTILINE)
_BETWEEN_CJK = re.compile(rf"(?<=[{CJK}])[\s\W_]+(?=[{CJK}])")
_APOSTROPHES = re.compile(r"['’`´]")
_FILLER_LIST = (
    "please kindly note that simply just really very also and the a an of to be sure make remember important "
    "importantly okay ok well now here por favor y el la los las un una de nota que "
    "пожалуйста и также просто очень важно 请 请注 注意"
)
_NEGATION_LIST = (
    "not no nor never without except cannot cant dont doesnt isnt arent wont shouldnt mustnt unless only "
    "always nunca sin siempre jamás solo excepto tampoco не нет ни никогда без всегда только кроме"
)
_FILLERS = frozenset(map(skeleton, _FILLER_LIST.split()))
_NEGATIONS = frozenset(map(skeleton, _NEGATION_LIST.split()))
_CJK_NEGATION = re.compile("[不没未别勿无非禁안않못없]|ない|せん|ず$")


@dataclass(frozen=True, slots=True)
class Essence:
    """What a change means: target, anchors (labels of touched lines), signed words, and joined text."""

    target: str
    anchors: frozenset[str]
    signed: tuple[str, ...]
    joined: str

    @property
    def words(self) -> frozenset[str]:
        """Distinct signed words."""
        return frozenset(self.signed)


def fingerprint(change: Change) -> str:
    """SHA-256 over target and normalised content; equal for changes that differ in looks only.

    Normalised: NFKC, case, spaces, unseen characters, lookalike letters, Latin accents, punctuation, list
    marks, comments, filler words, order of words and operations. Words added and removed count, not the
    words that stay, so two edits of one long line are told apart.
    """
    essence = essence_of(change)
    return content_hash([essence.target, sorted(essence.anchors), sorted(essence.signed)])


def blocked_by(change: Change, past: Iterable[PastChange]) -> PastChange | None:
    """The failed change that `change` repeats, exactly or nearly, if any."""
    mine, own = fingerprint(change), essence_of(change)
    for old in past:
        if old.fingerprint == mine:
            return old
        if old.change is not None and near_duplicate(own, essence_of(old.change)):
            return old
    return None


def near_duplicate(a: Essence, b: Essence) -> bool:
    """Same target and place, and word sets at least 0.9 alike (Jaccard), or the same letters in a row.

    Not when a negation stands in one only, or when a number was put in place of another: those few words
    turn a meaning round.
    """
    if a.target != b.target:
        return False
    if a.anchors and b.anchors and jaccard(a.anchors, b.anchors) < 0.5:
        return False
    if a.joined and a.joined == b.joined:
        return True
    if a.target.startswith("strategy:"):
        return _close_numbers(a.signed, b.signed)
    left, right = a.words - b.words, b.words - a.words
    if any(_negates(word[1:]) for word in left | right):
        return False
    if any(map(_has_digit, left)) and any(map(_has_digit, right)):
        return False
    return jaccard(a.words, b.words) >= SIMILAR_FROM


@lru_cache(maxsize=4096)
def essence_of(change: Change) -> Essence:
    """What a change means, without how it looks."""
    if isinstance(change, StrategyPatch):
        value = change.new if isinstance(change.new, str) else f"{change.new:.6g}"
        return Essence(f"strategy:{folded(change.path)}", frozenset(), (folded(value),), "")
    if isinstance(change, MemoryPatch):
        added = [op.text for op in change.ops if isinstance(op, MemoryAdd)]
        gone = [f"-{op.memory_id}" for op in change.ops if not isinstance(op, MemoryAdd)]
        signed = [f"+{word}" for text in added for word in plain_words(text)] + gone
        return Essence("memory", frozenset(), tuple(sorted(signed)), "")
    return _prompt_essence(change)


def plain_words(text: str) -> tuple[str, ...]:
    """Words of a text for comparison: no looks, no filler."""
    every = words(_plain(text))
    return tuple(word for word in every if word not in _FILLERS) or every


def _plain(text: str) -> str:
    # looks go first, since wide or hidden characters would disguise the marks of a comment or list
    lines = "\n".join(skeleton(line) for line in text.splitlines())
    plain = _LIST_MARK.sub("", _COMMENT.sub(" ", lines))
    return _APOSTROPHES.sub("", _BETWEEN_CJK.sub("", plain))


def _prompt_essence(change: PromptPatch) -> Essence:
    added: Counter[str] = Counter()
    removed: Counter[str] = Counter()
    anchors: set[str] = set()
    fresh: list[str] = []
    for op in change.ops:
        new, old = _texts(op)
        added.update(plain_words(new))
        removed.update(plain_words(old))
        if old:
            anchors.update(_anchor(old))
        fresh.extend(plain_words(new))
    signed = [f"+{word}" for word in (added - removed).elements()]
    signed += [f"-{word}" for word in (removed - added).elements()]
    if not signed:
        # a mere change of order: the order is all that it says
        signed = [f">{a} {b}" for a, b in pairwise(fresh)]
    # letters alone, so that spaces inside words hide nothing; fillers would be lost among single letters
    joined = "".join(char for op in change.ops for char in _plain(_texts(op)[0]) if char.isalnum())
    return Essence(f"prompt:{folded(change.prompt)}", frozenset(anchors), tuple(sorted(signed)), joined)


def _texts(op: PromptOp) -> tuple[str, str]:
    """New and old text of one operation."""
    if isinstance(op, ReplaceLine):
        return op.new, op.old
    if isinstance(op, DeleteLine):
        return "", op.old
    if isinstance(op, AddExample):
        return f"{op.user}\n{op.answer}", ""
    assert isinstance(op, AddLine | ReplaceAll)
    return op.text, ""


def _anchor(line: str) -> Sequence[str]:
    label = label_of(line)
    return plain_words(label) if label else plain_words(line)[:4]


def _negates(word: str) -> bool:
    return word in _NEGATIONS or _CJK_NEGATION.search(word) is not None


def _has_digit(word: str) -> bool:
    return any(char.isdigit() for char in word)


def _close_numbers(a: Sequence[str], b: Sequence[str]) -> bool:
    try:
        x, y = float(a[0]), float(b[0])
    except ValueError:
        return a == b
    return abs(x - y) <= _NUMBER_STEP * max(abs(x), abs(y))
