"""Prompt edits by rule: say about a failing intent what its users say."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from prx.domain.answers import Failed, NotEnoughData
from prx.domain.changes import AddExample, AddLine, PromptOp, PromptPatch, ReplaceLine
from prx.domain.findings import Finding
from prx.domain.plaintext import folded, is_unseen, quoted
from prx.domain.promptlines import editable_lines, key_of, label_of, line_about
from prx.domain.words import content_words, words
from prx.propose.cjkterms import joined_terms
from prx.propose.draft import PastChange, ProposeRules
from prx.propose.evidence import Case, agreed_case, users_behind
from prx.propose.fingerprint import blocked_by
from prx.propose.scope import check_edit

_BULLET = re.compile(r"^(\s*[-*•]\s+)?\S")
_LISTED = re.compile(r"\(([\w'’-]+(?:, [\w'’-]+)*)\)\s*$")


def rule_edit(
    finding: Finding,
    text: str,
    cases: Sequence[Case],
    *,
    past: Sequence[PastChange],
    rules: ProposeRules,
    rng: random.Random,
) -> PromptPatch | NotEnoughData | Failed:
    """An edit of the line about the finding's intent, or a new line, or an agreed example.

    Uses words that `min_users` named users share in requests whose right answer a person told; first the
    most distinctive ones, then seeded draws of others when the first choice failed before. Equal input and
    generator state give an equal edit.
    """
    if finding.prompt is None or finding.intent is None:
        return NotEnoughData("the finding names no prompt or no intent")
    told = [case for case in cases if case.answer is not None]
    if users_behind(told) < rules.min_users:
        return NotEnoughData(
            f"{users_behind(told)} users told a right answer, {rules.min_users} needed behind a rule"
        )
    terms = supported_terms(finding, text, told, rules)
    refusal: Failed | NotEnoughData = NotEnoughData(
        f"no word that the prompt lacks is shared by {rules.min_users} users"
    )
    for op in _candidates(finding, text, terms, told, rules=rules, rng=rng):
        patch = PromptPatch(prompt=finding.prompt, ops=(op,))
        checked = check_edit(patch, text, cases, rules)
        if isinstance(checked, Failed):
            refusal = checked
            continue
        old = blocked_by(patch, past)
        if old is None:
            return patch
        reason = f": {quoted(old.why, 120)}" if old.why else ""
        refusal = Failed(f"the same change failed before{reason}", "failed_before")
    return refusal


def supported_terms(
    finding: Finding, text: str, told: Sequence[Case], rules: ProposeRules
) -> tuple[str, ...]:
    """Words to add, best first: the finding's own terms that the cases confirm, then others they share.

    Others must occur nowhere in the prompt, since a word of another line does not tell intents apart.
    """
    line = finding.line or line_about(text, finding.intent or "") or ""
    here, anywhere = set(words(line)), set(words(text))
    behind: dict[str, set[str]] = {}
    for case in told:
        found = content_words(case.request)
        if case.user is None or isinstance(found, NotEnoughData):
            continue
        for word in found:
            behind.setdefault(word, set()).add(case.user)
    backed = Counter({w: len(u) for w, u in behind.items() if len(u) >= rules.min_users})
    usable = [w for w in backed if not any(map(is_unseen, w)) and w not in rules.tools]
    first = [word for word in finding.terms if word in usable and word not in here]
    others = sorted((w for w in usable if w not in anywhere), key=lambda w: (-backed[w], w))
    chosen = list(dict.fromkeys(first)) if finding.terms else others
    said = [(case.user, folded(case.request)) for case in told if case.user is not None]
    return joined_terms(chosen, said, min_users=rules.min_users)


def with_terms(line: str, terms: Sequence[str]) -> str:
    """`line` with `terms` in brackets at its end; a bracket that lists single words is extended."""
    plain = line.rstrip()
    end = plain[-1] if plain.endswith((".", "。")) else ""
    body = plain[: len(plain) - len(end)].rstrip()
    listed = _LISTED.search(body)
    if listed:
        return f"{body[: listed.end(1)].rstrip()}, {', '.join(terms)}){end}"
    return f"{body} ({', '.join(terms)}){end}"


def _candidates(
    finding: Finding,
    text: str,
    terms: Sequence[str],
    told: Sequence[Case],
    *,
    rules: ProposeRules,
    rng: random.Random,
) -> Iterator[PromptOp]:
    line = _line(finding, text)
    for chosen in _choices(terms, rules, rng):
        if line is not None:
            yield ReplaceLine(old=line, new=with_terms(line, chosen))
        else:
            yield AddLine(text=f"{_bullet(text)}{_label(finding, text)}: {', '.join(chosen)}")
    case = agreed_case(told, rules.min_users) if rules.examples else None
    if case is not None and case.answer is not None:
        yield AddExample(user=" ".join(case.request.split()), answer=case.answer)


def _choices(terms: Sequence[str], rules: ProposeRules, rng: random.Random) -> Iterator[list[str]]:
    """The best terms, fewer of them where room is short, then seeded draws for another try."""
    size = min(len(terms), rules.max_terms)
    for count in range(size, 0, -1):
        yield list(terms[:count])
    for _ in range(rules.attempts if len(terms) > 1 else 0):
        count = rng.randint(1, size)
        yield sorted(rng.sample(list(terms), count), key=list(terms).index)


def _line(finding: Finding, text: str) -> str | None:
    """The line to refine: the finding's if it still stands, else the one about the intent now."""
    editable = editable_lines(text)
    if finding.line in editable:
        return finding.line
    found = line_about(text, finding.intent or "")
    return found if found in editable else None


def _label(finding: Finding, text: str) -> str:
    """The intent in the spelling that the prompt uses for it, if it does."""
    wanted = key_of(finding.intent or "")
    labels = (label_of(line) for line in text.splitlines())
    return next((label for label in labels if label and key_of(label) == wanted), finding.intent or "")


def _bullet(text: str) -> str:
    """The list mark that most labelled lines begin with."""
    marks = Counter(
        (match[1] or "") for line in text.splitlines() if label_of(line) and (match := _BULLET.match(line))
    )
    return max(marks, key=lambda mark: (marks[mark], mark), default="- ")
