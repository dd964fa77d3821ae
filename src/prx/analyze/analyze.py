"""The analysis of a window of traffic: every detector over one bounded sample."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from prx.analyze.cost import cost_inefficiencies
from prx.analyze.failures import repeated_failures
from prx.analyze.found import Undecided, as_findings
from prx.analyze.latency import latency_outliers
from prx.analyze.memorygap import memory_gaps
from prx.analyze.observe import observe, unit_of
from prx.analyze.promptweakness import prompt_weaknesses
from prx.analyze.rules import AnalyzeRules
from prx.analyze.sample import UnitSample
from prx.domain.codec import content_hash
from prx.domain.findings import Finding
from prx.domain.ids import Ids
from prx.domain.records import Trace
from prx.domain.scores import SessionScore

Scores = Mapping[str, SessionScore] | Callable[[str], SessionScore | None]


@dataclass(frozen=True, slots=True)
class Analysis:
    """Findings, most severe first; what could not be decided; sessions read and sessions kept."""

    findings: tuple[Finding, ...]
    undecided: tuple[Undecided, ...]
    sessions: int
    sampled: int


def analyze(
    traces: Iterable[Trace],
    scores: Scores,
    *,
    agent: str,
    now: datetime,
    ids: Ids,
    known: Sequence[Finding] = (),
    rules: AnalyzeRules | None = None,
    prompts: Mapping[str, str] | None = None,
) -> tuple[Finding, ...]:
    """The findings of `examine` alone."""
    return examine(
        traces, scores, agent=agent, now=now, ids=ids, known=known, rules=rules, prompts=prompts
    ).findings


def examine(
    traces: Iterable[Trace],
    scores: Scores,
    *,
    agent: str,
    now: datetime,
    ids: Ids,
    known: Sequence[Finding] = (),
    rules: AnalyzeRules | None = None,
    prompts: Mapping[str, str] | None = None,
) -> Analysis:
    """Every pattern in the sessions of `agent`, and every question that the data could not answer.

    traces: streamed once, any order; sessions of other agents and of another `rules.env` are skipped.
    scores: by session id, or a function of it; a session without a score is judged by its trace alone.
    prompts: current text by name; a session counts for a prompt when it was served that very text
    (`content_hash` of the text). known: earlier findings, of which those seen again are updated.
    Memory is bounded by `rules.max_units` x `rules.sessions_per_unit` rows. Equal input gives equal output.
    """
    using = rules or AnalyzeRules()
    texts = dict(prompts or {})
    hashes = {name: content_hash(text) for name, text in texts.items()}
    score_of = scores if callable(scores) else scores.get
    sample = UnitSample(using)
    for trace in traces:
        if trace.start.agent != agent or using.env not in (None, trace.start.env):
            continue
        if sample.wants(unit_of(trace)):
            score = score_of(trace.start.session_id)
            sample.add(observe(trace, score, prompts=hashes, rules=using))
        else:
            sample.skip()
    rows = sample.rows()
    seen = (
        repeated_failures(rows, using),
        prompt_weaknesses(rows, texts, using),
        latency_outliers(rows, using),
        cost_inefficiencies(rows, using),
        memory_gaps(rows, using),
    )
    found = [item for detected in seen for item in detected.found]
    return Analysis(
        findings=as_findings(found, agent=agent, known=known, ids=ids, now=now),
        undecided=tuple(item for detected in seen for item in detected.undecided),
        sessions=sample.sessions,
        sampled=len(rows),
    )
