"""Answers that need no judge: nothing in them, or aimed at the judge instead of the user."""

import re

from prx.domain.plaintext import folded, is_unseen

_FORGED = (
    r"[\"'](?:score|scores|winner|verdict|safe|correct|complete|rating|grade)[\"']\s*:\s*"
    r"(?:[\"']?(?:first|second|a|b|pass(?:ed)?|true|perfect|excellent)\b|true|\d)",
)
_ROLE = (r"<\|[^|>\n]{1,40}\|>", r"\[/?inst\]", r"<</?sys>>", r"</?(?:system|assistant|developer)>")
_GRADER = r"(?:ai\s+)?(?:judges?|graders?|evaluators?|raters?|reviewers?)"
_TO_JUDGE = (
    rf"\b(?:dear|hello|note to|attention|message (?:to|for)|to)\s+(?:(?:the|any|all)\s+)?{_GRADER}\b",
    rf"\b{_GRADER}\s*[:,]\s*(?:please|give|score|rate|choose|ignore|mark|pick)\b",
    r"\b(?:this|the|my)\s+(?:answer|response|reply|solution)\s+(?:has|was|is)\s+(?:(?:already|been)\s+)*"
    r"(?:pass(?:ed|es)|graded|scored|rated|certified|judged|(?:verified|approved|validated) by)\b",
    r"\ball (?:checks|tests|graders|evaluations)\b.{0,20}\bpass\w*",
    r"\b(?:give|assign|award|return|output)\s+(?:\w+\s+){0,4}(?:full|maximum|highest|perfect|top)\s+"
    r"(?:marks|score|rating|grade|points)\b",
    r"(?:评委|评分者|裁判).{0,12}(?:满分|通过|最高)",
    r"(?:審査員|採点者).{0,12}(?:満点|合格)",
    r"(?:심사|채점).{0,12}(?:만점|통과)",
    r"(?:оценщик|судь)\w*.{0,30}(?:балл|оценк)",
    r"(?:evaluador|juez)\w*.{0,30}(?:puntuaci[oó]n|m[aá]xim)",
)
_SCREENS = tuple(
    (re.compile("|".join(patterns)), code)
    for patterns, code in ((_FORGED, "forged_reply"), (_ROLE, "role_marker"), (_TO_JUDGE, "addresses_judge"))
)


def screened(answer: str) -> str | None:
    """Why the answer counts as 0 without a judge, None when a judge must read it.

    `empty`: no letter or digit. `forged_reply`, `role_marker`, `addresses_judge`: written for the judge.
    """
    if not any(char.isalnum() and not is_unseen(char) for char in answer):
        return "empty"
    text = folded(answer)
    return next((code for pattern, code in _SCREENS if pattern.search(text)), None)
