"""The app's own prompts: each text that it sends becomes a version, one that comes back too."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from prx.domain.baselines import Baseline, baseline_id, stood_for
from prx.domain.codec import content_hash
from prx.domain.experiments import Experiment, ExperimentStatus
from prx.domain.layers import Layer
from prx.domain.records import PromptSeen
from prx.domain.versions import PromptSet, VersionSource
from prx.engine.context import Context
from prx.engine.rebasing import offer_again
from prx.engine.report import Report
from prx.engine.undone import SINCE
from prx.engine.watching import freeze_baseline
from prx.ledger.port import Transaction
from prx.release.applied import current
from prx.release.promote import initial_version, new_version
from prx.release.stop import cancel_experiment

RETURNS_AFTER = timedelta(hours=1)
_BATCH = 1000


def register_prompts(context: Context, now: datetime, report: Report) -> None:
    """Make a version of every own text that an app sent for the first time, and of one that came back."""
    after = context.records.cursor("prompts")
    while True:
        cursor, seen = context.records.prompts_seen(after=after, limit=_BATCH)
        if not seen:
            return
        for prompt in seen:
            before = partial(freeze_baseline, context, prompt.agent, now)
            with context.ledger.transaction(now=now, actor="engine") as tx:
                done = _register(tx, prompt, before)
            if done:
                report.add("prompt", f"{prompt.agent}/{prompt.name}", "done", done)
        context.records.set_cursor("prompts", cursor)
        after = cursor


def _register(tx: Transaction, seen: PromptSeen, before: Callable[[], dict[str, Any]]) -> str:
    digest, key = content_hash(seen.text), baseline_id(seen.agent, seen.name)
    known = tx.maybe(Baseline, key) or Baseline(baseline_id=key, agent=seen.agent, name=seen.name)
    since = seen.at
    if digest in known.text_hashes:
        known, returned = _sighted(tx, known, digest, seen.at)
        if returned is None:
            tx.put(known)
            return ""
        since = returned
    hashes = (*(one for one in known.text_hashes if one != digest), digest)
    tx.put(msgspec.structs.replace(known, text_hashes=hashes, newest_at=seen.at, returning={}))
    if tx.pointer(seen.agent) is None:
        version = initial_version(
            tx,
            seen.agent,
            prompts=PromptSet(texts={seen.name: seen.text}),
            source=VersionSource.INITIAL,
            note=f"prompt {seen.name!r} as the app has it",
            own={seen.name: digest},
        )
        return f"{version.label} holds it"
    return _replaced(tx, seen, digest, {**before(), SINCE: since.isoformat()})


def _replaced(tx: Transaction, seen: PromptSeen, digest: str, baseline: dict[str, Any]) -> str:
    """Serve the app's own text to all: the champion's edits were made for another one."""
    served = current(tx, seen.agent)
    part = tx.part(served.manifest.prompt)
    assert isinstance(part, PromptSet)
    if part.texts.get(seen.name) == seen.text:
        return ""
    for experiment in tx.find(
        Experiment, agent=seen.agent, layer=Layer.PROMPT, state=ExperimentStatus.RUNNING
    ):
        why = f"the app changed its own text of prompt {seen.name!r}"
        cancel_experiment(tx, experiment, reason="baseline_changed", why=why)
    changed = "changed" if seen.name in part.texts else "new"
    version = new_version(
        tx,
        seen.agent,
        Layer.PROMPT,
        PromptSet(texts={**part.texts, seen.name: seen.text}),
        source=VersionSource.OPERATOR,
        note=f"prompt {seen.name!r} {changed} by the app",
        baseline=baseline,
        own={**served.own, seen.name: digest},
    )
    edited = part.texts.get(seen.name)
    again = edited and offer_again(
        tx, seen.agent, seen.name, edited=edited, own=served.own.get(seen.name), now=seen.text
    )
    kept = f"; the earlier edits are proposed again as {again.proposal_id}" if again else ""
    return f"{version.label} holds the {changed} text{kept}"


def _sighted(tx: Transaction, known: Baseline, digest: str, at: datetime) -> tuple[Baseline, datetime | None]:
    """What is known after a registered text was seen in use, and since when it is back, if it is.

    While an app is rolled out, old and new processes send different texts; an earlier one is back once it
    alone was seen for an hour. Until then it is served as sent to whoever sends it.
    """
    own = current(tx, known.agent).own.get(known.name) if tx.pointer(known.agent) else None
    stands, _ = stood_for(known.text_hashes, own)
    if digest in stands:
        newest = max(at, known.newest_at or at)
        later = {one: (max(first, newest), last) for one, (first, last) in known.returning.items()}
        left = {one: run for one, run in later.items() if run[0] <= run[1]}
        return msgspec.structs.replace(known, newest_at=newest, returning=left), None
    if known.newest_at and at <= known.newest_at:
        return known, None
    first, last = known.returning.get(digest, (at, at))
    first, last = min(first, at), max(last, at)
    runs = {**known.returning, digest: (first, last)}
    back = first if last - first >= RETURNS_AFTER else None
    return msgspec.structs.replace(known, returning=runs), back
