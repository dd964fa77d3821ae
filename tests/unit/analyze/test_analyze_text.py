import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx.domain.answers import NotEnoughData
from prx.domain.plaintext import folded, is_unseen, quoted, skeleton
from prx.domain.promptlines import (
    editable_lines,
    fixed_sections,
    key_of,
    known_labels,
    label_of,
    line_about,
    placeholders,
)
from prx.domain.words import content_words, spans, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("My card hasn't ARRIVED_yet!", ("my", "card", "hasn't", "arrived", "yet")),
        ("¿Dónde está mi tarjeta?", ("dónde", "está", "mi", "tarjeta")),
        ("Где моя карта?", ("где", "моя", "карта")),
        ("银行卡丢了", ("银行", "行卡", "卡丢", "丢了")),
        ("カード紛失", ("カー", "ード", "ド紛", "紛失")),
        ("카드 분실", ("카드", "분실")),
        ("用card支付", ("用", "card", "支付")),
        ("ｃａｒｄ　ＰＩＮ", ("card", "pin")),
        ("cаrd", ("card",)),
        ("", ()),
    ],
)
def test_words_of_each_language_cjk_as_bigrams(text: str, expected: tuple[str, ...]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize("text", ["บัตรของฉันยังไม่มา", "ຂ້ອຍຕ້ອງການ", "ကျွန်တော့်ကတ်", "កាតរបស់ខ្ញុំ"])
def test_a_script_whose_words_cannot_be_told_apart_is_not_enough_data(text: str) -> None:
    assert isinstance(content_words(text), NotEnoughData)


def test_content_words_leave_out_digits_and_function_words() -> None:
    assert content_words("Where is my order 12345 for the passport?") == ("order", "passport")


def test_a_quoted_text_is_one_harmless_line_of_bounded_length() -> None:
    evil = "ok\x1b[31mred\x1b]0;title\x07\r\nnext\x00\u202egnp\u200b" + "z" * 500
    shown = quoted(evil, 60)
    assert shown.startswith("okred next\\u{0}\\u{202e}gnp\\u{200b}zzz")
    assert len(shown) <= 60
    assert shown.endswith("…")


@given(st.text(max_size=300), st.integers(1, 80))
def test_whatever_is_quoted_shows_nothing_hidden_and_keeps_its_limit(text: str, limit: int) -> None:
    shown = quoted(text, limit)
    assert len(shown) <= max(limit, 1)
    assert not any(is_unseen(char) or char in "\n\r\t\v\f" for char in shown)


@given(st.text(max_size=100))
def test_folding_twice_changes_nothing_more(text: str) -> None:
    assert folded(folded(text)) == folded(text)


def test_texts_that_look_alike_share_a_skeleton_and_others_do_not() -> None:
    assert skeleton("Rеfսnd".replace("ս", "u")) == skeleton("refund")
    assert skeleton("ｒéfｕnd\u200b") == skeleton("refund")
    assert skeleton("refund") != skeleton("refuse")
    assert skeleton("がく") != skeleton("かく")


def test_spans_weigh_a_cjk_character_as_half_a_word() -> None:
    assert spans("one two three", 3) == {("one", "two", "three")}
    assert spans("one two", 3) == set()
    assert len(spans("一二三四五六", 3)) == 1
    assert spans("一二三四五", 3) == set()


PROMPT = """Be brief. Greet {name}.
<!-- prx:fixed -->
Never reveal {secret}.
- fees: hidden
<!-- /prx:fixed -->
- Card arrival: by post
- fees: charges
twice
twice
"""


def test_only_lines_outside_of_fixed_sections_that_occur_once_are_editable() -> None:
    assert editable_lines(PROMPT) == ("Be brief. Greet {name}.", "- Card arrival: by post", "- fees: charges")
    assert fixed_sections(PROMPT)[0].count("\n") == 3
    assert fixed_sections("a <!-- prx:fixed --> open") == ("<!-- prx:fixed --> open",)
    assert placeholders(PROMPT) == {"{name}": 1, "{secret}": 1}


@pytest.mark.parametrize(
    ("intent", "line"),
    [
        ("card_arrival", "- Card arrival: by post"),
        ("fees", "- fees: hidden"),
        ("brief", "Be brief. Greet {name}."),
        ("refund", None),
        ("", None),
    ],
)
def test_the_line_about_an_intent_is_the_labelled_one_else_the_one_with_its_words(
    intent: str, line: str | None
) -> None:
    assert line_about(PROMPT, intent) == line


def test_labels_are_matched_without_case_and_separators() -> None:
    assert label_of("* Card arrival - by post") == "Card arrival"
    assert label_of("no label here") is None
    assert key_of("Card-Arrival") == key_of("card_arrival") == "card arrival"
    assert known_labels([PROMPT], ["card_arrival", "other"])["card arrival"] == "Card arrival"
