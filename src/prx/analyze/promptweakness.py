"""Prompt weaknesses: wrong answers that concentrate on an intent, traced to the line that should tell."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from prx.analyze.cells import Cell, concentrated, severity_of
from prx.analyze.found import Detected, Found, Undecided, name_of
from prx.analyze.observe import Seen
from prx.analyze.rules import AnalyzeRules
from prx.analyze.sample import evidence_of
from prx.analyze.terms import distinctive_terms
from prx.domain.answers import NotEnoughData
from prx.domain.findings import FindingKind
from prx.domain.layers import Layer
from prx.domain.promptlines import key_of, known_labels, line_about

NAME = "prompt_weakness"


def prompt_weaknesses(rows: Sequence[Seen], prompts: Mapping[str, str], rules: AnalyzeRules) -> Detected:
    """Per prompt, the topics whose sessions are corrected, irrelevant or wrong more often than others.

    Only sessions served the current text count. Each prompt is tested at its share of the error rate.
    """
    if not prompts:
        return _undecided("no prompt is registered")
    found: list[Found] = []
    undecided: list[Undecided] = []
    served = {name: [s for s in rows if name in s.prompts] for name in sorted(prompts)}
    tested = max(1, sum(map(bool, served.values())))
    shared = _share(rules, tested)
    labels = known_labels(prompts.values(), {s.intent for s in rows if s.intent})
    for name, mine in served.items():
        topics = {s.session_id: topic_of(s, labels) for s in mine}
        cells = concentrated(mine, key=lambda s: topics[s.session_id], bad=lambda s: s.wrong, rules=shared)
        if isinstance(cells, NotEnoughData):
            undecided.append(Undecided(f"{NAME}:{name}", cells))
            continue
        for cell in cells:
            others = [s for s in mine if topics[s.session_id] != cell.key]
            item = _found(name, prompts[name], cell, others, rules)
            found.append(item)
            if not _readable(cell.bad):
                why = f"most requests about {name_of(item.intent)} are in a script that is not supported"
                undecided.append(Undecided(f"{NAME}:{name}:terms", NotEnoughData(why)))
    return Detected(tuple(found), tuple(undecided))


def topic_of(seen: Seen, labels: Mapping[str, str]) -> str | None:
    """The right answer, told or accepted, when it is the name of a topic, else the recorded intent.

    Accepted answers count beside told ones: people tell the right answer where it was missed, and a topic
    known from misses alone would always look as if everything in it fails.
    """
    right = seen.answer or seen.accepted
    return (labels.get(key_of(right)) if right else None) or seen.intent


def _found(prompt: str, text: str, cell: Cell, others: Sequence[Seen], rules: AnalyzeRules) -> Found:
    topic = str(cell.key)
    line = line_about(text, topic)
    terms = distinctive_terms(cell.bad, others, line=line, rules=rules)
    rate = cell.rate
    part = f"the line \u201c{line.strip()[:80]}\u201d" if line else "no line"
    listed = ", ".join(terms)
    if not line:
        advice = f"Add a line about {name_of(topic)} to prompt {name_of(prompt)}."
    else:
        advice = f"Refine the line about {name_of(topic)} in prompt {name_of(prompt)}."
    if terms:
        advice += f" Failing requests share words that it lacks: {listed}."
    return Found(
        kind=FindingKind.PROMPT_WEAKNESS,
        severity=severity_of(rate),
        summary=f"Prompt {name_of(prompt)}, intent {name_of(topic)}: {rate.count} of {rate.total} units got "
        f"a wrong answer ({rate.count / rate.total:.0%}, 95 % {rate.low:.0%} to {rate.high:.0%}), other "
        f"intents {rate.rest_count} of {rate.rest_total}; {part} of the prompt mentions it.",
        recommendation=advice,
        layer=Layer.PROMPT,
        evidence=evidence_of(_telling_first(cell.bad, terms), rules.evidence_per_user),
        intent=topic,
        prompt=prompt,
        line=line,
        terms=terms,
        rate=rate,
    )


def _telling_first(bad: Sequence[Seen], terms: Sequence[str]) -> list[Seen]:
    """Sessions with a known right answer and with the listed words first, keyed order kept within."""
    wanted = set(terms)
    return sorted(bad, key=lambda s: (s.answer is None, -len(wanted & (s.terms or frozenset()))))


def _readable(bad: Sequence[Seen]) -> bool:
    return 2 * sum(seen.terms is None for seen in bad) < max(1, len(bad))


def _share(rules: AnalyzeRules, tested: int) -> AnalyzeRules:
    return replace(rules, alpha=rules.alpha / tested)


def _undecided(why: str) -> Detected:
    return Detected(undecided=(Undecided(NAME, NotEnoughData(why)),))
