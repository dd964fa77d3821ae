"""Words that set the failing requests of a topic apart, backed by several users."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from prx.analyze.observe import Seen
from prx.analyze.rules import AnalyzeRules
from prx.domain.plaintext import is_unseen
from prx.domain.words import words

_DISTINCT = 2.0


def distinctive_terms(
    failing: Sequence[Seen], others: Sequence[Seen], *, line: str | None, rules: AnalyzeRules
) -> tuple[str, ...]:
    """Up to `max_terms` words of the failing requests, most distinctive first.

    A word counts once per named user. It needs `min_users` users, must be missing from `line`, and its
    log odds against the other topics' requests must lie 2 standard errors above 0.
    Source: log-odds ratio with 0.5 smoothing, z as in Monroe, Colaresi and Quinn 2008, eq. 22.
    """
    inside, inside_size = _users_with(failing, rules)
    outside, outside_size = _users_with(others, rules)
    told = set(words(line or ""))
    ranked: list[tuple[float, str]] = []
    for word, count in inside.items():
        if count < rules.min_users or word in told or any(map(is_unseen, word)):
            continue
        other = outside.get(word, 0)
        odds = math.log((count + 0.5) / (inside_size - count + 0.5))
        odds -= math.log((other + 0.5) / (outside_size - other + 0.5))
        z = odds / math.sqrt(1 / (count + 0.5) + 1 / (other + 0.5))
        if z >= _DISTINCT:
            ranked.append((-z, word))
    return tuple(word for _, word in sorted(ranked)[: rules.max_terms])


def _users_with(rows: Iterable[Seen], rules: AnalyzeRules) -> tuple[Counter[str], int]:
    """Distinct users per word and in all; sessions without a user do not count unless the rules say so."""
    by_user: dict[str, set[str]] = {}
    for seen in rows:
        user = seen.user or (seen.unit if rules.anonymous_support else None)
        if user is not None and seen.terms is not None:
            by_user.setdefault(user, set()).update(seen.terms)
    return Counter(word for found in by_user.values() for word in found), len(by_user)
