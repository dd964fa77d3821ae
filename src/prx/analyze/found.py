"""What detectors hand back, and how a pattern seen again becomes the same finding."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from prx.domain.answers import NotEnoughData
from prx.domain.codec import content_hash
from prx.domain.findings import Finding, FindingKind, Rate
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.domain.plaintext import folded, quoted

SUMMARY_LIMIT = 400


@dataclass(frozen=True, slots=True)
class Found:
    """A pattern, not yet matched with what is known. `part` tells patterns of one subject apart."""

    kind: FindingKind
    severity: int
    summary: str
    recommendation: str
    layer: Layer
    evidence: tuple[str, ...]
    intent: str | None = None
    model: str | None = None
    prompt: str | None = None
    tool: str | None = None
    part: str = ""
    alternative: str | None = None
    line: str | None = None
    terms: tuple[str, ...] = ()
    rate: Rate | None = None
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Undecided:
    """A question that a detector could not answer in this run, and why."""

    detector: str
    answer: NotEnoughData


@dataclass(frozen=True, slots=True)
class Detected:
    """What one detector saw."""

    found: tuple[Found, ...] = ()
    undecided: tuple[Undecided, ...] = ()


def name_of(label: str | None) -> str:
    """A recorded label, quoted for a sentence; labels are data."""
    return "(no intent)" if label is None else f"'{quoted(label, 60)}'"


def fingerprint_of(agent: str, found: Found) -> str:
    """Stable name of the pattern: agent, kind and subject, not its numbers, evidence or wording."""
    subject = [found.intent, found.model, found.prompt, found.tool]
    plain = [None if name is None else folded(name) for name in subject]
    return content_hash([agent, found.kind.value, *plain, found.part])


def as_findings(
    found: Sequence[Found], *, agent: str, known: Sequence[Finding], ids: Ids, now: datetime
) -> tuple[Finding, ...]:
    """Findings, most severe first; a known pattern keeps id and first_seen and counts one more sighting."""
    before = {finding.fingerprint: finding for finding in known if finding.agent == agent}
    made: dict[str, Finding] = {}
    for item in sorted(found, key=lambda f: -f.severity):
        fingerprint = fingerprint_of(agent, item)
        if fingerprint in made:
            continue
        old = before.get(fingerprint)
        made[fingerprint] = Finding(
            finding_id=old.finding_id if old else ids.new(now),
            agent=agent,
            kind=item.kind,
            fingerprint=fingerprint,
            severity=item.severity,
            first_seen=old.first_seen if old else now,
            last_seen=now,
            summary=quoted(item.summary, SUMMARY_LIMIT),
            recommendation=quoted(item.recommendation, SUMMARY_LIMIT),
            layer=item.layer,
            intent=item.intent,
            model=item.model,
            prompt=item.prompt,
            rate=item.rate,
            evidence=item.evidence,
            times_seen=old.times_seen + 1 if old else 1,
            tool=item.tool,
            alternative=item.alternative,
            line=item.line,
            terms=item.terms,
            numbers=item.numbers,
        )
    return tuple(made.values())
