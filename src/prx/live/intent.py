"""What kind of request a text is, by its words; deterministic, and an app may say it better itself."""

import re
from enum import StrEnum
from typing import Final

_LOOKED_AT = 2000
_LONG_DOC = 8000
_WORD = re.compile(r"\w+")


class Intent(StrEnum):
    """Kinds of request that routing and analysis tell apart."""

    CONVERSATION = "conversation"
    CODE = "code"
    ANALYSIS = "analysis"
    SUMMARY = "summary"
    TRANSLATION = "translation"
    TOOL = "tool"
    LONG_DOC = "long_doc"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Whole words, beginnings of words (for languages that inflect), texts found anywhere (CJK has no spaces).
_WHOLE: Final = {
    Intent.TRANSLATION: _words("traduce traduzca"),
    Intent.SUMMARY: _words("tldr recap condense resumir resumen resuma сводка резюме"),
    Intent.CODE: _words(
        "function bug debug python javascript typescript java sql regex api compile unittest bash stacktrace"
        " traceback código función depura код функция функцию скрипт"
    ),
    Intent.ANALYSIS: _words(
        "compare comparison evaluate assess explain compara comparar evalúa explica сравни оцени объясни"
    ),
    Intent.TOOL: _words(
        "book cancel schedule search find order reserve refund send create update delete check lookup buscar"
        " busca reserva reservar cancela cancelar envía enviar найди закажи отправь проверь"
    ),
}
_BEGINNINGS: Final = {
    Intent.TRANSLATION: ("translat", "traduc", "перевед", "перевест", "перевод"),
    Intent.SUMMARY: ("summar", "суммируй", "суммариз", "резюмир", "подытож"),
    Intent.CODE: ("refactor", "debugg", "програм", "отлад"),
    Intent.ANALYSIS: ("analys", "analyz", "analiz", "análisi", "анализ", "проанализ", "сравнен"),
    Intent.TOOL: ("заброниру", "отмен", "закаж"),
}
_PHRASES: Final = {
    Intent.TRANSLATION: (),
    Intent.SUMMARY: (" tl dr ", " sum up "),
    Intent.CODE: (" write code ", " source code ", " this code ", " my code ", " code snippet "),
    Intent.ANALYSIS: (" pros and cons ",),
    Intent.TOOL: (" look up ", " sign me up "),
}
_ANYWHERE: Final = {
    Intent.TRANSLATION: ("翻译", "翻譯", "譯成", "译成", "訳して", "翻訳", "번역"),
    Intent.SUMMARY: ("总结", "總結", "摘要", "概括", "要約", "まとめて", "요약"),
    Intent.CODE: (
        "```",
        "代码",
        "代碼",
        "函数",
        "函數",
        "程序",
        "コード",
        "関数",
        "プログラム",
        "코드",
        "함수",
    ),
    Intent.ANALYSIS: ("分析", "比较", "比較", "評価", "분석", "비교"),
    Intent.TOOL: ("预订", "預訂", "查询", "查詢", "取消", "搜索", "予約", "検索", "예약", "검색", "취소"),
}


def _starts(kind: Intent, *, ascii_only: bool) -> tuple[str, ...]:
    starts = (*_PHRASES[kind], *(f" {beginning}" for beginning in _BEGINNINGS[kind]))
    return tuple(start for start in starts if start.isascii() is ascii_only)


# In the padded words, a space in front makes the beginning of a word.
_STARTS: Final = {kind: _starts(kind, ascii_only=True) for kind in _WHOLE}
_ALL_WHOLE: Final = frozenset().union(*_WHOLE.values())
_ALL_STARTS: Final = tuple(start for starts in _STARTS.values() for start in starts)
_STARTS_BEYOND: Final = {kind: _starts(kind, ascii_only=False) for kind in _WHOLE}


def classify(text: str, *, tools: bool = False, tool_result: bool = False) -> str:
    """Kind of the request whose last user text is `text`.

    `tools`: the request offers tools, so words of action mean `tool`. `tool_result`: the request carries a
    tool's answer, which is `tool` whatever the words. Only the first 2000 characters are read; a text of
    8000 and more without any other sign is `long_doc`.
    """
    if tool_result:
        return Intent.TOOL
    head = text[:_LOOKED_AT].casefold()
    found = _WORD.findall(head)
    words, padded = frozenset(found), f" {' '.join(found)} "
    if head.isascii() and _says_nothing(head, words, padded):
        return Intent.LONG_DOC if len(text) >= _LONG_DOC else Intent.CONVERSATION
    kinds = (Intent.TRANSLATION, Intent.SUMMARY, Intent.CODE, Intent.ANALYSIS)
    for kind in (*kinds, Intent.TOOL) if tools else kinds:
        if _is(kind, head, words, padded):
            return kind
    return Intent.LONG_DOC if len(text) >= _LONG_DOC else Intent.CONVERSATION


def _says_nothing(head: str, words: frozenset[str], padded: str) -> bool:
    """Whether an ASCII text is of no kind at all, as most are, told by one look at all signs."""
    if not words.isdisjoint(_ALL_WHOLE) or "```" in head:
        return False
    return not any(map(padded.__contains__, _ALL_STARTS))


def _is(kind: Intent, head: str, words: frozenset[str], padded: str) -> bool:
    if not words.isdisjoint(_WHOLE[kind]) or any(map(padded.__contains__, _STARTS[kind])):
        return True
    if head.isascii():
        return kind is Intent.CODE and "```" in head
    return any(map(head.__contains__, _ANYWHERE[kind])) or any(map(padded.__contains__, _STARTS_BEYOND[kind]))
