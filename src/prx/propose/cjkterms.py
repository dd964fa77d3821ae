"""Bigrams of Chinese, Japanese and Korean put together again to the words that users wrote."""

from collections.abc import Sequence

from prx.domain.words import is_cjk

_ALIKE = 0.8
_MAX_LENGTH = 8


def joined_terms(terms: Sequence[str], said: Sequence[tuple[str, str]], *, min_users: int) -> tuple[str, ...]:
    """`terms` with overlapping bigrams joined where at least `min_users` users wrote them in one piece.

    said: (user, folded text). Two terms join when the joined text has at least 0.8 of the users of the rarer
    of both; it takes the place of the first of them.
    """
    joined = list(terms)
    while (found := _pair(joined, said, min_users)) is not None:
        first, second, whole = found
        joined[min(first, second)] = whole
        del joined[max(first, second)]
    return tuple(joined)


def _pair(
    terms: Sequence[str], said: Sequence[tuple[str, str]], min_users: int
) -> tuple[int, int, str] | None:
    for i, left in enumerate(terms):
        for j, right in enumerate(terms):
            if i == j or not (is_cjk(left) and is_cjk(right)) or left[-1] != right[0]:
                continue
            whole = left + right[1:]
            rarer = min(_users(left, said), _users(right, said))
            if len(whole) <= _MAX_LENGTH and _users(whole, said) >= max(min_users, _ALIKE * rarer):
                return i, j, whole
    return None


def _users(term: str, said: Sequence[tuple[str, str]]) -> int:
    return len({user for user, text in said if term in text})
