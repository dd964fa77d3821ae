# ruff: noqa: E501, PLR0917 - a table of a past
"""An agent with a past: versions, proposals in many states, experiments, findings, incidents, sessions."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from prx.domain.changes import AddLine, MemoryAdd, MemoryArchive, MemoryPatch, PromptPatch, StrategyPatch
from prx.domain.decisions import Amendment, Decision, DecisionOutcome, Verdict
from prx.domain.events import Breaker, Control, Due, Event, EventName, Incident
from prx.domain.experiments import Experiment, ExperimentStatus, FitnessScore, Look, Plan, Variant
from prx.domain.findings import Finding, FindingKind, Rate
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.domain.proposals import (
    Approval,
    ExpectedEffect,
    ProofStep,
    Proposal,
    ProposalState,
)
from prx.domain.records import Interaction, SessionStart
from prx.domain.scores import DIMENSIONS, SessionScore
from prx.domain.versions import (
    Manifest,
    MemoryState,
    PromptSet,
    Strategy,
    Version,
    VersionSource,
    VersionStatus,
    part_hash,
)
from prx.ledger import open_memory as memory_ledger
from prx.ledger.port import Ledger, Transaction
from prx.records import open_memory as memory_records
from prx.records.port import RecordStore

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
BEFORE = "You help bank customers.\nName the topic of each message.\n"
AFTER = f"{BEFORE.rstrip()}\nIf a card was swallowed, the topic is card_swallowed.\n"
S = ProposalState


@dataclass(frozen=True, slots=True)
class World:
    """The stores, and the ids of what is in them by short names."""

    ledger: Ledger
    records: RecordStore
    ids: dict[str, str]


def build_world() -> World:
    """The agent `default` at NOW."""
    ids = Ids(random.Random(11))
    ledger, records = memory_ledger(ids), memory_records()
    names: dict[str, str] = {}
    with ledger.transaction(now=NOW - 20 * DAY, actor="engine") as tx:
        _versions(tx, names)
        _findings(tx, names)
        _proposals(tx, names)
        _experiments(tx, names)
        _incidents(tx, names)
        _state(tx)
    _sessions(records)
    return World(ledger, records, names)


def _versions(tx: Transaction, names: dict[str, str]) -> None:
    texts = (BEFORE, AFTER, AFTER + "Be brief.\n")
    parts = [PromptSet(texts={"system": text}) for text in texts]
    memory, strategy = tx.put_part(MemoryState()), tx.put_part(Strategy())
    for number, part in enumerate(parts):
        at = NOW - (20 - 5 * number) * DAY
        version = Version(
            snapshot_id=tx.ids.snapshot(at),
            agent="default",
            label=f"v1.{number}",
            created_at=at,
            manifest=Manifest(prompt=tx.put_part(part), memory=memory, strategy=strategy),
            parents=(f"v1.{number - 1}",) if number else (),
            source=VersionSource.ENGINE if number else VersionSource.INITIAL,
            status=VersionStatus.ROLLED_BACK if number == 2 else VersionStatus.LIVE,
            layer=Layer.PROMPT if number else None,
            note=("first prompt seen", "say what a swallowed card is", "shorter answers")[number],
        )
        tx.add_version(version)
        names[version.label] = version.snapshot_id
    tx.point("default", "v1.1", expected=None)


def _findings(tx: Transaction, names: dict[str, str]) -> None:
    rate = Rate(count=14, total=40, low=0.22, high=0.51, rest_count=9, rest_total=300, p_value=1e-9)
    for severity, kind, layer, summary in (
        (4, FindingKind.PROMPT_WEAKNESS, Layer.PROMPT, "messages about swallowed cards get a wrong topic"),
        (2, FindingKind.LATENCY_OUTLIER, Layer.STRATEGY, "calls of large-model are slow: p95 9.1 s"),
        (3, FindingKind.MEMORY_GAP, Layer.MEMORY, "nothing is stored about exchange rates"),
    ):
        finding = Finding(
            finding_id=tx.ids.new(NOW - severity * DAY),
            agent="default",
            kind=kind,
            fingerprint=f"fp-{kind}",
            severity=severity,
            first_seen=NOW - 12 * DAY,
            last_seen=NOW - timedelta(hours=severity),
            summary=summary,
            recommendation="describe the topic in the prompt",
            layer=layer,
            intent="card_swallowed" if severity == 4 else None,
            rate=rate if severity == 4 else None,
            evidence=("session-1", "session-2"),
            times_seen=severity,
            resolved_at=NOW if severity == 2 else None,
        )
        tx.put(finding)
        names[f"finding{severity}"] = finding.finding_id


def _proposals(tx: Transaction, names: dict[str, str]) -> None:
    base = part_hash(PromptSet(texts={"system": BEFORE}))
    prompt = PromptPatch(
        prompt="system", ops=(AddLine("If a card was swallowed, the topic is card_swallowed."),)
    )
    strategy = StrategyPatch(path="router.gamma", old=0.3, new=0.35)
    memory = MemoryPatch(
        ops=(MemoryAdd(memory_id="m1", text="rates change daily"), MemoryArchive(memory_id="m0", why="stale"))
    )
    improving = (S.GATED, S.SHADOWING, S.JUDGED, S.EXPERIMENTING, S.WATCHING)
    _proposal(tx, names, "won", prompt, base, (*improving, S.CONFIRMED), 14,
              verdict=Verdict.APPROVED, outcome=DecisionOutcome.IMPROVED, promoted=10, version="v1.1")  # fmt: skip
    _proposal(tx, names, "undone", prompt, base, (*improving, S.ROLLED_BACK), 8,
              verdict=Verdict.APPROVED, outcome=DecisionOutcome.ROLLED_BACK, promoted=5, ended=4.5, version="v1.2")  # fmt: skip
    _proposal(tx, names, "refused", prompt, base, (S.REJECTED,), 7, verdict=Verdict.REJECTED)
    _proposal(tx, names, "waiting", strategy, "sha256:0", (S.GATED, S.JUDGED, S.AWAITING_APPROVAL), 3)
    _proposal(tx, names, "later", strategy, "sha256:0", (S.DEFERRED,), 2, verdict=Verdict.DEFERRED)
    _proposal(tx, names, "kept", memory, "sha256:0", (S.GATED, S.JUDGED, S.WATCHING, S.CONFIRMED), 6,
              verdict=Verdict.AUTO_APPROVED, outcome=DecisionOutcome.NEUTRAL, promoted=6)  # fmt: skip


def _proposal(
    tx: Transaction,
    names: dict[str, str],
    name: str,
    change: PromptPatch | StrategyPatch | MemoryPatch,
    base: str,
    states: tuple[ProposalState, ...],
    age: float,
    *,
    verdict: Verdict | None = None,
    outcome: DecisionOutcome | None = None,
    promoted: float | None = None,
    ended: float | None = None,
    version: str | None = None,
) -> None:
    created = NOW - age * DAY
    layer = {PromptPatch: Layer.PROMPT, StrategyPatch: Layer.STRATEGY, MemoryPatch: Layer.MEMORY}[
        type(change)
    ]
    names[name], names[f"{name}_decision"] = tx.ids.new(created), tx.ids.new(created)
    proposal = Proposal(
        proposal_id=names[name],
        agent="default",
        layer=layer,
        change=change,
        description=f"{name}: describe swallowed cards",
        rationale="14 of 40 such messages were answered wrongly",
        trigger="person" if name == "refused" else names["finding4"],
        author="engine",
        base=base,
        treated="sha256:1",
        fingerprint=f"fp-{name}",
        risk=0.12,
        created_at=created,
        state_since=created,
        expires_at=created + 45 * DAY,
        decision_id=names[f"{name}_decision"],
        cycle_id="cycle_2026-11-06T12:00:00Z",
        expected=ExpectedEffect(estimate=0.03, low=0.01, high=0.05, source="replay"),
        proofs=(
            ProofStep(name="syntax", answer="pass", why="the prompt is valid", at=created),
            ProofStep(name="shadow", answer="not_enough_data", why="60 of 100 pairs", at=created),
        ),
        approval=Approval(
            actor="person:ada", at=created, content_hash="sha256:1", base=base, policy_version="1",
            expires_at=created + DAY,
        ) if name == "won" else None,
    )  # fmt: skip
    tx.put(proposal)
    for state in states:
        changes: dict[str, Any] = {"version": version} if state is S.WATCHING else {}
        if state is S.DEFERRED:
            changes["deferred_until"] = NOW + 5 * DAY
        proposal = tx.move(proposal, state, why=f"now {state}", **changes)
    tx.put(
        Decision(
            decision_id=names[f"{name}_decision"],
            cycle_id=proposal.cycle_id,
            layer=layer,
            timestamp=created,
            proposal={
                "type": "prompt_refinement",
                "description": proposal.description,
                "parameters": {"old_token_count": 320, "new_token_count": 272},
            },
            rationale=proposal.rationale,
            data_points=500,
            proposal_id=proposal.proposal_id,
            fitness_before=0.72,
            fitness_after=0.75 if outcome is DecisionOutcome.IMPROVED else None,
            verdict=verdict,
            verdict_reason=f"checked, risk 0.12 below 0.5 ({name})" if verdict else "",
            executed=promoted is not None,
            rollback_id=names["v1.1"] if outcome is DecisionOutcome.ROLLED_BACK else None,
            outcome=outcome,
            shadow={
                "quality": {"mean": 0.031, "low": 0.01, "high": 0.052, "n": 108},
                "latency_ms": {"mean": -12.5, "low": -30.0, "high": 5.0, "n": 200},
                "noise": {"candidate_changed": 0.1},
                "pairs": 200,
            },
            judge_score=0.82 if promoted else None,
            promoted_at=None if promoted is None else NOW - promoted * DAY,
            ended_at=None if ended is None else NOW - ended * DAY,
            amendments=(Amendment(at=created + DAY, actor="engine", what="won its experiment"),),
        )
    )


def _experiments(tx: Transaction, names: dict[str, str]) -> None:
    manifest = Manifest(prompt="sha256:1", memory="sha256:2", strategy="sha256:3")
    arms = (
        Variant(name="control", description="current prompt (320 tokens)", manifest=manifest, version="v1.0"),
        Variant(name="treatment", description="refined prompt (272 tokens)", manifest=manifest),
    )
    looks = [
        Look(number=1, at=NOW - 13 * DAY, control_sessions=31, treatment_sessions=29, is_look=False,
             note="31 and 29 sessions, 100 needed in each arm",
             extra={"validity": [{"answer": "pass", "why": "as split"}] * 4}),
        _look(2, 12, 104, 101, 0.012, 1.1, 3.35, None, 0.27, 1.0),
        _look(3, 11, 203, 198, 0.031, 3.41, 2.60, 0.003, 0.0007, 0.004),
    ]  # fmt: skip
    for name, status, layer, age in (
        ("experiment", ExperimentStatus.CONVERGED, Layer.PROMPT, 14),
        ("running", ExperimentStatus.RUNNING, Layer.STRATEGY, 1),
    ):
        ended = status is ExperimentStatus.CONVERGED
        names[name] = tx.ids.new(NOW - age * DAY)
        tx.put(
            Experiment(
                experiment_id=names[name],
                decision_id=names["won_decision"],
                layer=layer,
                status=status,
                created_at=NOW - age * DAY,
                control=arms[0],
                treatment=arms[1],
                converged_at=NOW - 11 * DAY if ended else None,
                control_sessions=203 if ended else 31,
                treatment_sessions=198 if ended else 29,
                control_fitness=FitnessScore(value=0.72, sessions=203) if ended else FitnessScore(),
                treatment_fitness=FitnessScore(value=0.75, sessions=198) if ended else FitnessScore(),
                p_value=0.004 if ended else None,
                winner="treatment" if ended else None,
                proposal_id=names["won"],
                plan=plan(),
                looks=tuple(looks) if ended else tuple(looks[:1]),
                conclusion="promote" if ended else "",
                reason="the lower bound is above 0" if ended else "",
                next_look_at=NOW + DAY,
            )
        )


def _look(
    number: int, age: float, n_c: int, n_t: int, difference: float, z: float, bound: float,
    low: float | None, p_naive: float, p_value: float,
) -> Look:  # fmt: skip
    row = {
        "control": 0.70, "treatment": 0.75, "difference": 0.05, "low": 0.01, "high": 0.09,
        "p_naive": 0.004, "p_bonferroni": 0.024, "p_holm": 0.02,
        "control_coverage": 0.9, "treatment_coverage": 0.88,
    }  # fmt: skip
    interval = {"low": 0.01, "high": 0.05}
    return Look(
        number=number,
        at=NOW - age * DAY,
        control_sessions=n_c,
        treatment_sessions=n_t,
        control_mean=0.72,
        treatment_mean=0.72 + difference,
        difference=difference,
        se=0.009,
        df=188.0,
        z=z,
        information=12000.0,
        fraction=0.21 * number,
        alpha_spent=0.0009 * number,
        bound=bound,
        p_naive=p_naive,
        p_value=p_value,
        low=low,
        high=None if low is None else 0.058,
        median_unbiased=difference - 0.004,
        conclusion="promote" if low else "inconclusive",
        note="" if low else "the interval holds 0",
        extra={
            "dimensions": {
                "response_relevance": row,
                "memory_precision": {"not_enough_data": "8 and 9 sessions, 100 needed"},
            },
            "guardrails": {"response_relevance": {"answer": "pass", "why": "above -0.1"}},
            "validity": [{"answer": "pass", "why": f"fine {i}"} for i in range(4)],
            "harm": [{"answer": "pass", "why": "no dimension lost 0.05 for certain"}],
            "mann_whitney_p": 0.002,
            "brunner_munzel_p": None,
            "effective_units": [88.4, 90.1],
            "rank_test": {"answer": "fail", "why": "Brunner-Munzel p 0.2000"},
            "futile": False,
            "missing_bound": {"total": 0.004, "worst_case": difference - 0.006, "bounds": {}},
            "effects": {
                "absolute": {"estimate": difference, "interval": interval},
                "relative": {"estimate": 0.043, "interval": interval, "se": 0.1},
                "hedges_g": {"estimate": 0.31, "interval": interval},
                "common_language": {"not_enough_data": "3 units"},
            },
        },
    )


def plan() -> Plan:
    """The default plan with its forecast."""
    return Plan(
        traffic_split=0.5, ramp=1.0, confidence_level=0.95, min_effect_size=0.02, effect_scale="absolute",
        min_sample_size=100, min_units=20, default_duration_hours=168, min_duration_hours=24,
        max_duration_hours=720, check_interval_hours=24, outcome_window_hours=24, randomization_unit="auto",
        spending="hsd:-4", planned_sample="power", planned_looks=30, act_on_futility=False,
        weights={"response_relevance": 0.55, "task_completion": 0.45}, rho=0.2, max_regression=0.1,
        ramp_salt="r", variant_salt="v", fdr_alpha=0.0125, reported=("memory_precision",),
        forecast={
            "max_sessions": 812.0, "hours_to_maximum": 301.0, "fraction_at_default": 0.55,
            "fraction_at_maximum": 1.0, "smallest_effect_at_minimum": 0.0412,
            "chances": [{"lift": 0.02, "promote": 0.61}, {"lift": 0.03, "promote": 0.93}],
            "worth_starting": True,
        },
    )  # fmt: skip


def _incidents(tx: Transaction, names: dict[str, str]) -> None:
    names["incident"] = tx.ids.new(NOW - 4.5 * DAY)
    tx.put(
        Incident(
            incident_id=names["incident"],
            agent="default",
            layer=Layer.PROMPT,
            at=NOW - 4.5 * DAY,
            detector="breaker",
            summary="12 of 40 sessions failed, 2.9 times the baseline",
            proposal_id=names["undone"],
            version="v1.2",
            restored="v1.1",
            numbers={"failures": 12, "sessions": 40, "tail": 0.0004},
            evidence=("session-7",),
            next_step="read the sessions in evidence",
        )
    )
    tx.emit(
        Event(
            event_id=tx.ids.new(NOW),
            at=NOW - 4.5 * DAY,
            agent="default",
            name=EventName.INCIDENT,
            summary="breaker: 12 of 40 sessions failed",
        )
    )


def _state(tx: Transaction) -> None:
    for job, every, runs in (("analysis", 1, 20), ("evolve", 3, 7), ("layer.prompt", 7, 3), ("lease", 1, 9)):
        due_at = NOW + timedelta(hours=12 * every)
        tx.put(
            Due(due_id=f"default/{job}", agent="default", job=job, at=due_at, last_run=NOW - DAY, runs=runs)
        )
    tx.put(Breaker(breaker_id="default/prompt", agent="default", layer=Layer.PROMPT, state="open"))
    tx.put(
        Decision(
            decision_id=tx.ids.new(NOW), cycle_id="cycle_2026-11-16T00:00:00Z", layer=Layer.PROMPT,
            timestamp=NOW - 4.5 * DAY, proposal={"type": "rollback", "description": "serve v1.1 again"},
            rationale="breaker", data_points=0, verdict=Verdict.AUTO_APPROVED,
            verdict_reason="detector breaker", executed=True,
        )
    )  # fmt: skip
    tx.put(Control(agent="default", token_targets=(200.0, 2000.0)))


def _sessions(records: RecordStore) -> None:
    rng = random.Random(5)
    scores = []
    for day in range(10):
        for number in range(12):
            at = NOW - day * DAY - timedelta(hours=1 + number / 12)
            session = f"s{day}-{number}"
            records.append(
                [
                    SessionStart(record_id=f"{session}-start", at=at, session_id=session),
                    Interaction(record_id=f"{session}-call", at=at, session_id=session, response="hello"),
                ]
            )
            values = {
                name: round(rng.uniform(0.5, 0.9), 3) for name in DIMENSIONS if name != "memory_precision"
            }
            scores.append(
                SessionScore(
                    session_id=session,
                    agent="default",
                    env="production",
                    started_at=at,
                    closes_at=at + DAY,
                    closed=day > 0,
                    dimensions=values,
                    failed=number == 0,
                    tokens=100,
                    cost_usd=0.01,
                    ttft_ms=(700.0,),
                )
            )
    records.put_scores(scores)
