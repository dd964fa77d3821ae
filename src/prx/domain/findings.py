"""Findings: patterns that the analysis saw in the records."""

from datetime import datetime
from enum import StrEnum

import msgspec

from prx.domain.layers import Layer

MAX_EVIDENCE = 20


class FindingKind(StrEnum):
    """What kind of weakness a finding describes."""

    REPEATED_FAILURE = "repeated_failure"
    PROMPT_WEAKNESS = "prompt_weakness"
    COST_INEFFICIENCY = "cost_inefficiency"
    LATENCY_OUTLIER = "latency_outlier"
    MEMORY_GAP = "memory_gap"


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """`count` of `total`, with a 95 % Wilson interval and the rate of the rest beside it."""

    count: int
    total: int
    low: float
    high: float
    rest_count: int
    rest_total: int
    p_value: float


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pattern; `fingerprint` is stable, so the same pattern seen again updates this record.

    `alternative`: a model that did better; `line`: the prompt's line about `intent`, None when no line
    mentions it; `terms`: words that several users' failing requests share and that line lacks (recorded
    text: data); `numbers`: what else the detector measured, names with their unit.
    """

    finding_id: str
    agent: str
    kind: FindingKind
    fingerprint: str
    severity: int
    first_seen: datetime
    last_seen: datetime
    summary: str
    recommendation: str
    layer: Layer
    intent: str | None = None
    model: str | None = None
    prompt: str | None = None
    rate: Rate | None = None
    evidence: tuple[str, ...] = ()
    times_seen: int = 1
    resolved_at: datetime | None = None
    tool: str | None = None
    alternative: str | None = None
    line: str | None = None
    terms: tuple[str, ...] = ()
    numbers: dict[str, float] = {}
