"""Units that stay on the previous version while a change is watched: its concurrent control."""

from datetime import datetime

import msgspec

from prx.domain.layers import Layer
from prx.domain.scores import SessionScore
from prx.domain.versions import Version

_KEY = "holdback"
_PREFIX = "holdback/"


class HoldStep(msgspec.Struct, frozen=True, kw_only=True):
    """Share of the units held back, 0..1, until a time."""

    share: float
    until: datetime


class Holdback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who stays on the previous part of a layer while a change to it is watched, and for how long.

    `previous` is the hash of that part; `salt` places the units, the highest of them are held back, so that
    with the salt of the change's experiment they are units of its control. `steps` follow each other in time;
    the end of the last one is the end of the holdback.
    """

    holdback_id: str
    layer: Layer
    previous: str
    salt: str
    steps: tuple[HoldStep, ...]
    randomization_unit: str = "auto"

    def share(self, now: datetime) -> float | None:
        """Share held back at `now`; None once it is over."""
        return next((step.share for step in self.steps if now < step.until), None)


def name_holdback(proposal_id: str) -> str:
    """Id under which sessions record their side of the holdback of a proposal's change."""
    return f"{_PREFIX}{proposal_id}"


def with_holdback(baseline: dict[str, object], held: Holdback | None) -> dict[str, object]:
    """The frozen baseline of a version, with what is held back from it."""
    return baseline if held is None else {**baseline, _KEY: msgspec.to_builtins(held)}


def holdback_of(version: Version) -> Holdback | None:
    """What was held back when this version was promoted; None when nobody was."""
    told = version.baseline.get(_KEY)
    return msgspec.convert(told, Holdback) if told else None


def is_holdback(experiment_id: str) -> bool:
    """Whether an arm of this id is a side of a holdback, not of an experiment."""
    return experiment_id.startswith(_PREFIX)


def held_back(score: SessionScore) -> bool:
    """Whether the session was served a previous part; it says nothing of what serves the others."""
    return any(is_holdback(arm.experiment_id) and arm.served == "control" for arm in score.arms)
