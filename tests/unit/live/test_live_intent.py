import pytest

from prx.live.intent import Intent, classify


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("Hi, I lost my card yesterday", Intent.CONVERSATION),
        ("Please translate this into German", Intent.TRANSLATION),
        ("Summarise the meeting notes", Intent.SUMMARY),
        ("tl;dr?", Intent.SUMMARY),
        ("There is a bug in my Python script", Intent.CODE),
        ("```\nx = 1\n``` what does it do", Intent.CODE),
        ("Compare the two offers", Intent.ANALYSIS),
        ("x " * 4000, Intent.LONG_DOC),
        ("请总结这篇文章", Intent.SUMMARY),
        ("把这句话翻译成英文", Intent.TRANSLATION),
        ("帮我写一个排序函数", Intent.CODE),
        ("请分析一下原因", Intent.ANALYSIS),
        ("この文章を要約してください", Intent.SUMMARY),
        ("英語に翻訳して", Intent.TRANSLATION),
        ("이 글을 요약해 주세요", Intent.SUMMARY),
        ("Переведите этот текст на английский", Intent.TRANSLATION),
        ("Напиши функцию сортировки", Intent.CODE),
        ("Проанализируйте продажи", Intent.ANALYSIS),
        ("Traduce esta frase al inglés", Intent.TRANSLATION),
        ("Haz un resumen del texto", Intent.SUMMARY),
        ("Analiza los datos de ventas", Intent.ANALYSIS),
    ],
)
def test_a_request_is_known_by_its_words_in_every_language(text: str, intent: Intent) -> None:
    assert classify(text) == intent
    assert classify(text.upper()) == intent


@pytest.mark.parametrize(
    "text", ["debugger-free ladybugs", "a javanese dish", "functional", "my codec", "mysqlite"]
)
def test_a_keyword_inside_another_word_does_not_count(text: str) -> None:
    assert classify(text.replace("debugger-free ", "")) == Intent.CONVERSATION


def test_words_of_action_mean_a_tool_only_where_tools_are_offered() -> None:
    assert classify("Cancel my order please", tools=True) == Intent.TOOL
    assert classify("Cancel my order please") == Intent.CONVERSATION
    assert classify("Hello", tools=True) == Intent.CONVERSATION
    assert classify("Summarise the report", tools=True, tool_result=True) == Intent.TOOL


def test_what_a_long_text_asks_for_first_counts_more_than_its_length() -> None:
    assert classify("Summarize: " + "word " * 4000) == Intent.SUMMARY
