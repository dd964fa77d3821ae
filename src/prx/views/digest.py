"""One day of an agent on one page."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from prx.domain.answers import NotEnoughData
from prx.domain.decisions import Decision
from prx.domain.events import Event, Incident
from prx.domain.findings import Finding
from prx.domain.records import PRODUCTION
from prx.fitness.deployment import DeploymentFitness, deployment_fitness
from prx.fitness.rules import FitnessRules
from prx.ledger.port import View
from prx.records.port import RecordStore

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Digest:
    """What happened in the 24 hours of `day` (UTC).

    `failed` counts sessions with an agent failure, `findings` are new ones, `seen_again` counts older ones.
    """

    agent: str
    day: date
    sessions: int
    failed: int
    tokens: int
    cost_usd: float
    fitness: DeploymentFitness | NotEnoughData
    findings: tuple[Finding, ...]
    seen_again: int
    decisions: tuple[Decision, ...]
    incidents: tuple[Incident, ...]
    events: tuple[Event, ...]


def digest(view: View, records: RecordStore, rules: FitnessRules, agent: str, day: date) -> Digest:
    """The day's sessions, the findings seen on it, what was decided and what went wrong."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    end = start + timedelta(days=1)
    found = view.find(Finding, agent=agent)
    scores = list(records.scores(agent=agent, env=PRODUCTION, since=start, until=end))
    return Digest(
        agent=agent,
        day=day,
        sessions=len(scores),
        failed=sum(bool(score.failed) for score in scores),
        tokens=sum(score.tokens or 0 for score in scores),
        cost_usd=sum(score.cost_usd or 0.0 for score in scores),
        fitness=deployment_fitness(scores, rules=rules, start=start, end=end),
        findings=tuple(f for f in found if start <= f.first_seen < end),
        seen_again=sum(f.first_seen < start <= f.last_seen < end for f in found),
        decisions=view.find(Decision, agent=agent, since=start, until=end),
        incidents=view.find(Incident, agent=agent, since=start, until=end),
        events=_events(view, agent, start, end),
    )


def _events(view: View, agent: str, start: datetime, end: datetime) -> tuple[Event, ...]:
    found: list[Event] = []
    after = 0
    while page := view.events(after=after, limit=_PAGE):
        found += [event for _, event in page if event.agent == agent and start <= event.at < end]
        after = page[-1][0]
    return tuple(found)
