"""Sessions that say nothing about what serves: those under changes that were undone, or only on trial."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from prx.domain.decisions import Decision
from prx.domain.experiments import TREATMENT, Experiment, ExperimentStatus
from prx.domain.holdback import held_back, is_holdback
from prx.domain.scores import Arm, SessionScore
from prx.domain.versions import Version, VersionSource, VersionStatus
from prx.engine.turn import Turn
from prx.ledger.port import View

SINCE = "since"
Spans = tuple[tuple[datetime, datetime], ...]


def served_since(version: Version) -> datetime:
    """When the first session was served what this version holds; an app serves its own text at once."""
    told = version.baseline.get(SINCE)
    return datetime.fromisoformat(told) if told else version.created_at


def undone_spans(view: View, agent: str) -> Spans:
    """From when each undone version began to serve until it was undone."""
    versions = view.find(Version, agent=agent)
    if all(one.status is VersionStatus.LIVE and one.source is not VersionSource.ROLLBACK for one in versions):
        return ()
    began = {version.label: served_since(version) for version in versions}
    return tuple(
        (began[label], decision.timestamp)
        for decision in view.find(Decision, agent=agent)
        if decision.proposal.get("type") == "rollback"
        for label in decision.proposal.get("parameters", {}).get("undone", ())
        if label in began
    )


def untried(view: View, agent: str, scores: Iterable[SessionScore]) -> Iterator[SessionScore]:
    """The scores of sessions under what serves: under none of the undone changes, no treatment that did not
    win, and of no unit that is held back."""
    spans = undone_spans(view, agent)
    ended = view.find(Experiment, agent=agent, state=ExperimentStatus.CONVERGED)
    won = {one.experiment_id for one in ended if one.winner == TREATMENT}
    return (
        score
        for score in scores
        if not any(start <= score.started_at < end for start, end in spans)
        and not held_back(score)
        and not any(_other_treatment(arm, won) for arm in score.arms)
    )


def _other_treatment(arm: Arm, won: set[str]) -> bool:
    return arm.served == TREATMENT and arm.experiment_id not in won and not is_holdback(arm.experiment_id)


def of_what_serves(turn: Turn, since: datetime) -> Iterator[SessionScore]:
    """The turn's scores from `since` on that say something about what serves."""
    with turn.view() as view:
        return untried(view, turn.agent, turn.scores(since))
