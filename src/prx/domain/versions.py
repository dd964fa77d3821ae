"""Versions: the whole evolvable state of an agent at one moment, as content-addressed parts."""

import re
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from prx.domain.codec import content_hash
from prx.domain.errors import InvalidInput
from prx.domain.layers import Layer

SNAPSHOT_SCHEMA = 1
_LABEL = re.compile(r"v(\d+)\.(\d+)")


class PromptSet(msgspec.Struct, frozen=True, kw_only=True, tag="prompts"):
    """L2 part: template text by prompt name. Placeholders are `{name}`; sections between
    `<!-- prx:fixed -->` and `<!-- /prx:fixed -->` are immutable."""

    texts: dict[str, str] = {}


class MemoryState(msgspec.Struct, frozen=True, kw_only=True, tag="memory"):
    """L1 part: the evolution operations in force, oldest first; entries of sessions are not in it."""

    operations: tuple[str, ...] = ()


class RouterWeights(msgspec.Struct, frozen=True, kw_only=True):
    """score = alpha similarity + beta capability + gamma elo - delta cost - epsilon latency."""

    alpha: float = 0.0
    beta: float = 0.5
    gamma: float = 0.3
    delta: float = 0.1
    epsilon: float = 0.1


class Strategy(msgspec.Struct, frozen=True, kw_only=True, tag="strategy"):
    """L3 part: typed parameters of routing and limits. Timeouts in seconds, by model or tool; concurrency
    in calls at a time, by channel. `explore`: share of sessions, 0..0.2, that get another model than the
    preferred one, so that the others can be evaluated; 0 changes nothing."""

    router: RouterWeights = RouterWeights()
    automix_threshold: float = 0.7
    default_models: dict[str, str] = {}
    concurrency: dict[str, int] = {}
    timeouts: dict[str, float] = {}
    disabled_tools: tuple[str, ...] = ()
    explore: float = 0.0


Part = PromptSet | MemoryState | Strategy
PART_OF: dict[Layer, type[PromptSet] | type[MemoryState] | type[Strategy]] = {
    Layer.PROMPT: PromptSet,
    Layer.MEMORY: MemoryState,
    Layer.STRATEGY: Strategy,
}


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Hash of each layer's part, and of the operator's settings (recorded, never restored)."""

    prompt: str
    memory: str
    strategy: str
    settings: str = ""

    def part(self, layer: Layer) -> str:
        """Hash of the part of `layer`."""
        return {Layer.PROMPT: self.prompt, Layer.MEMORY: self.memory, Layer.STRATEGY: self.strategy}[layer]

    def with_part(self, layer: Layer, part_hash: str) -> "Manifest":
        """The same manifest with another part for `layer`."""
        return msgspec.structs.replace(self, **{layer.value: part_hash})


def part_hash(part: Part) -> str:
    """Content address of a part."""
    return content_hash(part)


class VersionSource(StrEnum):
    """Who made a version."""

    INITIAL = "initial"
    ENGINE = "engine"
    OPERATOR = "operator"
    CLIENT = "client"
    ROLLBACK = "rollback"
    ERASURE = "erasure"


class VersionStatus(StrEnum):
    """`rolled_back` stays in history; `sealed` holds erased text and cannot be restored."""

    LIVE = "live"
    ROLLED_BACK = "rolled_back"
    SEALED = "sealed"


class Version(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of one agent; `label` is never reused.

    `layer` is what it changed; `baseline` the failure rate and fitness levels before it, frozen when it
    began to serve, for breaker and watch; `own` the content hash of the app's own text, by prompt, that each
    text was made from.
    """

    snapshot_id: str
    agent: str
    label: str
    created_at: datetime
    manifest: Manifest
    parents: tuple[str, ...] = ()
    source: VersionSource = VersionSource.ENGINE
    status: VersionStatus = VersionStatus.LIVE
    layer: Layer | None = None
    proposal_id: str | None = None
    note: str = ""
    schema: int = SNAPSHOT_SCHEMA
    baseline: dict[str, Any] = {}
    own: dict[str, str] = {}


class Pointer(msgspec.Struct, frozen=True, kw_only=True):
    """Which version an agent serves; `revision` rises by one with every move."""

    agent: str
    label: str
    revision: int
    since: datetime


def parse_label(text: str) -> tuple[int, int]:
    """(1, 3) from `v1.3`. Raises: InvalidInput."""
    match = _LABEL.fullmatch(text.strip().lower())
    if not match:
        raise InvalidInput(
            f"{text!r} is no version; they are called v1.0, v1.1 and so on (`prx evolution versions list`)"
        )
    return int(match[1]), int(match[2])


def next_label(existing: list[str]) -> str:
    """Label after the highest in `existing`; `v1.0` when there is none."""
    if not existing:
        return "v1.0"
    major, minor = max(map(parse_label, existing))
    return f"v{major}.{minor + 1}"
