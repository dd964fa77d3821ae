"""The facts of a text that a summary must not lose: numbers, dates, ids, names, negations, code."""

import re
from collections import Counter

from prx.domain.plaintext import skeleton
from prx.domain.words import words

_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*%?")
_ID = re.compile(
    r"\b(?=[\w-]*\d)(?=[\w-]*[^\W\d_])[\w-]{3,}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<![.!?¿¡。]\s)(?<!^)\b[A-ZÁÉÍÓÚÑА-ЯЁ][\w'’-]+", re.MULTILINE)
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|without|cannot|\w+n['’]t|nunca|sin|tampoco|jamás|не|нет|ни|никогда|без)\b|"
    r"[不没未别勿无]|ない|ません|않|못|없|안 ",
    re.IGNORECASE,
)
_CODE = re.compile(r"(`{1,3})(.+?)\1", re.DOTALL)
_CLAUSE_END = re.compile(r"[.!?。！？\n]")
_CONTEXT = 3


def facts_of(text: str) -> Counter[tuple[str, str]]:
    """Facts as (kind, value): number, id, name, code span; a negation with the words after it in its
    sentence."""
    found: Counter[tuple[str, str]] = Counter()
    found.update({("number", m.group()) for m in _NUMBER.finditer(text)})
    found.update({("id", skeleton(m.group())) for m in _ID.finditer(text)})
    found.update({("name", skeleton(m.group())) for m in _NAME.finditer(text)})
    found.update({("code", m.group(2).strip()) for m in _CODE.finditer(text)})
    for match in _NEGATION.finditer(text):
        clause = _CLAUSE_END.split(text[match.end() : match.end() + 60], maxsplit=1)[0]
        following = words(clause)[:_CONTEXT]
        found["negation", " ".join([skeleton(match.group()), *following])] = 1
    return found


def lost_facts(before: str, after: str) -> tuple[tuple[str, str], ...]:
    """Facts of `before` that `after` no longer holds, in order."""
    kept = facts_of(after)
    return tuple(sorted(fact for fact in facts_of(before) if fact not in kept))
