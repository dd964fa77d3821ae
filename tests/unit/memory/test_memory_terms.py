import random

import pytest

from prx.domain.restating import restates, saying_of
from prx.memory.terms import ascii_token, terms_of


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("policies", "policy"),
        ("caching", "cached"),
        ("boxes", "box"),
        ("running", "run"),
        ("classes", "class"),
        ("deleted", "deletes"),
    ],
)
def test_forms_of_one_english_word_are_one_term(a: str, b: str) -> None:
    assert terms_of(a) == terms_of(b)


@pytest.mark.parametrize(("a", "b"), [("status", "state"), ("5432", "5433"), ("bus", "but")])
def test_other_words_stay_apart(a: str, b: str) -> None:
    assert terms_of(a) != terms_of(b)


def test_what_says_nothing_gives_no_term() -> None:
    assert terms_of("the of and is it, please!") == ()
    assert terms_of("") == ()


def test_tokens_are_plain_and_never_two_alike() -> None:
    rng = random.Random(2)
    alphabet = "abzé退款портŞ'9"
    words = {"".join(rng.choices(alphabet, k=rng.randint(1, 6))) for _ in range(3000)}
    tokens = {ascii_token(word) for word in words}
    assert len(tokens) == len(words)
    assert all(token.isascii() and token.isalnum() for token in tokens)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("The port is 5432.", "the  port is 5432", True),
        ("The port is 5432.", "The port is 5433.", False),
        ("Refunds are possible", "Refunds are not possible", False),
        ("Alice lent Bob the key", "Bob lent Alice the key", False),
        ("Run `make a` now", "Run `make b` now", False),
        ("", "", True),
    ],
)
def test_only_the_same_said_again_is_a_restatement(a: str, b: str, same: bool) -> None:
    assert restates(saying_of(a), saying_of(b)) is same
