"""Time under changes that were undone: it says nothing about the changes that stayed."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from prx.domain.decisions import Decision
from prx.domain.scores import SessionScore
from prx.domain.versions import Version
from prx.ledger.port import View

SINCE = "since"
Spans = tuple[tuple[datetime, datetime], ...]


def served_since(version: Version) -> datetime:
    """When the first session was served what this version holds; an app serves its own text at once."""
    told = version.baseline.get(SINCE)
    return datetime.fromisoformat(told) if told else version.created_at


def undone_spans(view: View, agent: str) -> Spans:
    """From when each undone version began to serve until it was undone."""
    began = {version.label: served_since(version) for version in view.find(Version, agent=agent)}
    return tuple(
        (began[label], decision.timestamp)
        for decision in view.find(Decision, agent=agent)
        if decision.proposal.get("type") == "rollback"
        for label in decision.proposal.get("parameters", {}).get("undone", ())
        if label in began
    )


def outside(scores: Iterable[SessionScore], spans: Spans) -> Iterator[SessionScore]:
    """The scores of sessions that began in none of the spans."""
    for score in scores:
        if not any(start <= score.started_at < end for start, end in spans):
            yield score
