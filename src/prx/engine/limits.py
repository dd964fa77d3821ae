"""How much evidence a proposal needs before it is written, and how many one cycle may write."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from prx.domain.codec import content_hash
from prx.domain.findings import Finding
from prx.domain.layers import Layer
from prx.domain.records import PRODUCTION
from prx.engine.turn import Turn
from prx.propose.draft import Current, Draft

LOOK_BACK = timedelta(days=28)


def enough_sessions(turn: Turn, findings: Iterable[Finding], served: Current) -> list[Finding]:
    """Without the findings about a prompt whose current text fewer than `l2.min_samples` sessions saw."""
    needed = turn.settings.l2.min_samples
    seen: dict[str, int] = {}
    usable = []
    for finding in findings:
        name = finding.prompt
        if finding.layer is not Layer.PROMPT or name is None or name not in served.prompts.texts:
            usable.append(finding)
            continue
        if name not in seen:
            seen[name] = _sessions_of(turn, name, served.prompts.texts[name], needed)
        if seen[name] >= needed:
            usable.append(finding)
            continue
        why = (
            f"{seen[name]} sessions saw the current text of prompt {name!r}, {needed} needed (l2.min_samples)"
        )
        turn.report.add("propose", finding.finding_id, "not_enough_data", why)
    return usable


def few_strategy_changes(turn: Turn, drafts: Sequence[Draft]) -> tuple[Draft, ...]:
    """The drafts, of those for the strategy only the first `l3.max_policy_changes_per_cycle`."""
    left = turn.settings.l3.max_policy_changes_per_cycle
    kept = []
    for draft in drafts:
        if draft.layer is Layer.STRATEGY:
            if left <= 0:
                why = "this cycle has made its strategy changes (l3.max_policy_changes_per_cycle)"
                turn.report.add("propose", draft.trigger, "fail", why)
                continue
            left -= 1
        kept.append(draft)
    return tuple(kept)


def _sessions_of(turn: Turn, name: str, text: str, enough: int) -> int:
    """Production sessions of the last 28 days that were served this very text; counted up to `enough`."""
    served = content_hash(text)
    count = 0
    for trace in turn.context.records.traces(
        agent=turn.agent, env=PRODUCTION, since=turn.now - LOOK_BACK, until=turn.now, newest_first=True
    ):
        count += any(call.prompts.get(name) == served for call in trace.interactions)
        if count >= enough:
            break
    return count
