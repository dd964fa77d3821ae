"""What the read models say of an agent's past."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from evolved_world import DAY, NOW, World, build_world

from prx.domain.answers import NotEnoughData
from prx.domain.decisions import Decision, DecisionOutcome, Verdict
from prx.domain.errors import InvalidInput, NotFound
from prx.domain.events import AuditRow, Control
from prx.domain.experiments import Experiment, ExperimentStatus
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.versions import Version
from prx.ledger.audit import Head
from prx.settings import Settings, load
from prx.views.audit import rows as audit_rows
from prx.views.audit import verify
from prx.views.decisions import Filter, decisions, stats
from prx.views.digest import digest
from prx.views.experiments import details, experiments
from prx.views.findings import findings, incidents
from prx.views.fitness import fitness_now, fitness_over, rules_from
from prx.views.fullform import full
from prx.views.history import Attempt, history
from prx.views.identify import identify, short
from prx.views.proposals import proposal_view, proposals
from prx.views.status import mode_of, status
from prx.views.versions import diff, parts, version_named, versions

TARGETS = (200.0, 2000.0)


def settings(**env: str) -> Settings:
    return load(env=env, folder=Path(__file__).parent)


@pytest.fixture(scope="module")
def world() -> World:
    return build_world()


@pytest.fixture
def view(world: World) -> Any:
    with world.ledger.view() as view:
        yield view


def attempts(view: Any) -> dict[str, Attempt]:
    return {one.description.split(":")[0]: one for one in history(view, "default", NOW)}


def test_history_says_what_became_of_each_candidate(view: Any) -> None:
    outcomes = {name: one.outcome for name, one in attempts(view).items()}
    assert outcomes == {
        "won": "promoted",
        "undone": "rolled_back",
        "refused": "rejected",
        "waiting": "awaiting_approval",
        "later": "deferred",
        "kept": "promoted",
    }


def test_the_active_time_ends_with_the_rollback_and_runs_on_without_one(view: Any) -> None:
    found = attempts(view)
    assert found["undone"].active_seconds == timedelta(days=0.5).total_seconds()
    assert found["won"].active_seconds == timedelta(days=10).total_seconds()
    assert found["refused"].active_seconds is None


def test_the_shadow_differences_are_those_that_were_measured(view: Any) -> None:
    shadow = attempts(view)["won"].shadow
    assert {name: delta.mean for name, delta in shadow.items()} == {"quality": 0.031, "latency_ms": -12.5}
    assert (shadow["quality"].low, shadow["quality"].high) == (0.01, 0.052)


def test_the_trigger_is_told_by_what_was_found_or_who_asked(world: World, view: Any) -> None:
    found = attempts(view)
    assert found["won"].trigger == "prompt_weakness (card_swallowed)"
    assert found["won"].trigger_id == world.ids["finding4"]
    assert found["refused"].trigger == "person"


def test_history_can_be_cut_to_a_layer_and_a_length(view: Any) -> None:
    assert {one.layer for one in history(view, "default", NOW, layer=Layer.STRATEGY)} == {Layer.STRATEGY}
    assert len(history(view, "default", NOW, limit=2)) == 2
    assert history(view, "nobody", NOW) == ()


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (Filter(agent="default", layer=Layer.STRATEGY), ["waiting", "later"]),
        (Filter(agent="default", verdict=Verdict.REJECTED), ["refused"]),
        (Filter(agent="default", outcome=DecisionOutcome.ROLLED_BACK), ["undone"]),
        (Filter(agent="default", since=NOW - 6.5 * DAY), ["waiting", "later", "kept", "serve v1.1 again"]),
        (Filter(agent="default", tail=2), ["kept", "serve v1.1 again"]),
        (Filter(agent="default", outcome=DecisionOutcome.IMPROVED, tail=5), ["won"]),
        (Filter(agent="nobody"), []),
    ],
)
def test_decisions_are_filtered_and_come_oldest_first(view: Any, wanted: Filter, names: list[str]) -> None:
    assert [one.proposal["description"].split(":")[0] for one in decisions(view, wanted)] == names


def test_the_tail_counts_matching_decisions_only(view: Any) -> None:
    wanted = Filter(agent="default", outcome=DecisionOutcome.IMPROVED, tail=1)
    assert [one.outcome for one in decisions(view, wanted)] == [DecisionOutcome.IMPROVED]


def test_approval_rates_are_those_of_the_source_documents() -> None:
    counts = {Layer.MEMORY: (138, 2, 2), Layer.PROMPT: (19, 6, 3), Layer.STRATEGY: (2, 3, 0)}
    world = build_world()
    with world.ledger.transaction(now=NOW, actor="engine") as tx:
        for layer, (approved, rejected, deferred) in counts.items():
            yes = Verdict.AUTO_APPROVED if layer is Layer.MEMORY else Verdict.APPROVED
            verdicts = [yes] * approved + [Verdict.REJECTED] * rejected + [Verdict.DEFERRED] * deferred
            for number, verdict in enumerate(verdicts):
                tx.put(
                    Decision(
                        decision_id=f"{layer}-{number}", cycle_id="c", layer=layer, timestamp=NOW,
                        proposal={}, rationale="", data_points=1, agent="other", proposal_id="p",
                        verdict=verdict,
                    )
                )  # fmt: skip
        tx.put(
            Decision(
                decision_id="rollback", cycle_id="c", layer=Layer.PROMPT, timestamp=NOW, proposal={},
                rationale="", data_points=0, agent="other", verdict=Verdict.APPROVED,
            )
        )  # fmt: skip
    with world.ledger.view() as view:
        rows = stats(view, agent="other")
    assert [(r.proposed, r.approved, r.rejected, r.deferred, r.shown_rate) for r in rows] == [
        (142, 138, 2, 2, "97.2 %"),
        (28, 19, 6, 3, "67.9 %"),
        (5, 2, 3, 0, "40.0 %"),
    ]


def test_a_layer_without_proposals_has_no_rate(view: Any) -> None:
    assert {row.shown_rate for row in stats(view, agent="nobody")} == {"-"}


def test_a_proposal_shows_its_change_as_a_diff(world: World, view: Any) -> None:
    shown = proposal_view(view, view.get(Proposal, world.ids["won"]))
    assert shown.diff[-1] == "+If a card was swallowed, the topic is card_swallowed."
    assert not [line for line in shown.diff[2:] if line.startswith("-")]
    strategy = proposal_view(view, view.get(Proposal, world.ids["waiting"]))
    assert strategy.diff == ("-router.gamma = 0.3", "+router.gamma = 0.35")
    memory = proposal_view(view, view.get(Proposal, world.ids["kept"]))
    assert memory.diff == ("+m1: rates change daily", "-m0 (stale)")


def test_a_diff_against_an_erased_text_says_so_instead_of_failing() -> None:
    world = build_world()
    with world.ledger.transaction(now=NOW, actor="person:ada") as tx:
        proposal = tx.get(Proposal, world.ids["won"])
        tx.erase_part(proposal.base)
    with world.ledger.view() as view:
        assert proposal_view(view, proposal).diff[0].startswith("the text cannot be shown")


def test_proposals_can_be_listed_by_state(world: World, view: Any) -> None:
    waiting = proposals(view, agent="default", states=[ProposalState.AWAITING_APPROVAL])
    assert [one.proposal_id for one in waiting] == [world.ids["waiting"]]


def test_versions_show_which_one_is_served_and_what_differs(world: World, view: Any) -> None:
    assert [(row.version.label, row.current) for row in versions(view, "default")] == [
        ("v1.0", False),
        ("v1.1", True),
        ("v1.2", False),
    ]
    first, second = (
        version_named(view, "default", "V1.0"),
        version_named(view, "default", world.ids["v1.1"][-8:]),
    )
    [changed] = diff(view, first, second)
    assert (changed.layer, changed.lines[-1]) == (
        Layer.PROMPT,
        "+If a card was swallowed, the topic is card_swallowed.",
    )
    assert diff(view, first, first) == ()
    assert [part.layer for part in parts(view, first)] == [Layer.MEMORY, Layer.PROMPT, Layer.STRATEGY]


def test_an_id_may_be_shortened_to_an_end_that_fits_one_record(world: World, view: Any) -> None:
    whole = world.ids["won"]
    assert identify(view, Proposal, whole).proposal_id == whole
    assert identify(view, Proposal, short(whole)).proposal_id == whole
    with pytest.raises(InvalidInput, match="proposals fit"):
        identify(view, Proposal, whole[:8])
    for text in ("nope", whole[-3:], ""):
        with pytest.raises(NotFound, match="`prx evolution proposals` lists"):
            identify(view, Proposal, text)


def test_findings_come_worst_first_and_without_the_resolved_ones(view: Any) -> None:
    assert [one.severity for one in findings(view, agent="default")] == [4, 3]
    assert [one.severity for one in findings(view, agent="default", resolved=True)] == [4, 3, 2]
    assert len(incidents(view, agent="default", open_only=True)) == 1


def test_experiment_details_name_every_correction_and_what_it_moved(world: World, view: Any) -> None:
    found = details(view.get(Experiment, world.ids["experiment"]))
    moved = {one.name: (one.before, one.after) for one in found.corrections}
    assert moved["sequential looks (p)"] == (0.0007, 0.004)
    assert moved["early stopping (estimate)"] == (0.031, pytest.approx(0.027))
    assert moved["missing sessions (estimate)"] == (0.031, pytest.approx(0.025))
    assert moved["several dimensions (response_relevance, p)"] == (0.004, 0.024)
    assert moved["several experiments (alpha)"] == (pytest.approx(0.025), 0.0125)
    assert [one.name for one in found.validity] == [
        "sample ratio",
        "exposure",
        "contamination",
        "lost sessions",
    ]
    assert [(one.name, one.answer) for one in found.guardrails] == [
        ("no loss of response_relevance", "pass"),
        ("harm 1", "pass"),
    ]
    assert dict(found.other_tests) == {
        "Mann-Whitney U": "p 0.002",
        "Brunner-Munzel": "not enough data",
        "Needed for skewed scores": "fail: Brunner-Munzel p 0.2000",
        "Effective units": "88.4 control, 90.1 treatment",
        "Futility": "a win is still possible",
    }
    missing = next(one for one in found.dimensions if one.name == "memory_precision")
    assert (missing.difference, missing.note) == (None, "8 and 9 sessions, 100 needed")


def test_an_experiment_before_its_first_look_says_what_it_waits_for(world: World, view: Any) -> None:
    found = details(view.get(Experiment, world.ids["running"]))
    assert (found.last, found.corrections, found.dimensions) == (None, (), ())
    assert found.waits_for == "31 and 29 sessions, 100 needed in each arm"
    assert len(experiments(view, agent="default", status=ExperimentStatus.RUNNING)) == 1


def test_fitness_is_of_the_window_and_its_trend_of_the_one_a_week_before(world: World) -> None:
    rules = rules_from(settings(), TARGETS)
    current, trend = fitness_now(world.records, "default", rules, NOW)
    mine = [s for s in world.records.scores(agent="default") if NOW - DAY <= s.started_at < NOW]
    assert not isinstance(current, NotEnoughData)
    assert current.sessions == len(mine) == 12
    relevance = next(one for one in current.dimensions if one.name == "response_relevance")
    assert relevance.score == pytest.approx(sum(s.dimensions["response_relevance"] for s in mine) / 12)
    assert not isinstance(trend, NotEnoughData)
    assert [one.sessions for one in fitness_over(world.records, "default", rules, NOW, 3 * DAY)] == [12] * 4


def test_fitness_without_recent_sessions_says_when_the_last_one_was(world: World) -> None:
    answer, trend = fitness_now(world.records, "default", rules_from(settings()), NOW + 30 * DAY)
    assert isinstance(answer, NotEnoughData)
    assert isinstance(trend, NotEnoughData)
    assert answer.why.endswith("the newest session began 2026-11-20 11:00 UTC, see --history")


def test_token_targets_come_from_the_file_or_else_from_what_was_frozen() -> None:
    assert rules_from(settings()).target_tokens is None
    assert rules_from(settings(), TARGETS).ceiling_tokens == 2000.0
    env = {"PRX__FITNESS__TARGET_TOKENS": "10", "PRX__FITNESS__CEILING_TOKENS": "20"}
    assert rules_from(settings(**env), TARGETS).target_tokens == 10.0


def test_the_digest_of_a_day_holds_that_day_only(world: World, view: Any) -> None:
    day = (NOW - 4.5 * DAY).date()
    found = digest(view, world.records, rules_from(settings(), TARGETS), "default", day)
    assert (found.sessions, found.failed, found.tokens) == (12, 1, 1200)
    assert found.cost_usd == pytest.approx(0.12)
    assert (len(found.incidents), len(found.events), len(found.decisions)) == (1, 1, 1)


def test_a_whole_audit_chain_passes_and_a_cut_end_is_seen_from_outside(world: World, view: Any) -> None:
    check = verify(view)
    assert (check.whole, check.rows) == (True, len(list(audit_rows(view))))
    seq, digest_text = check.head.split(":")
    assert verify(view, noted=Head(int(seq), digest_text)).whole
    beyond = verify(view, noted=Head(int(seq) + 1, "0" * 64))
    assert (beyond.whole, beyond.code) == (False, "audit_truncated")


class EditedView:
    """A view whose third audit row was changed in the store."""

    def __init__(self, rows: list[AuditRow]) -> None:
        self.rows = [*rows[:2], msgspec.structs.replace(rows[2], subject="else"), *rows[3:]]

    def audit_rows(self, *, after: int = 0, limit: int | None = None) -> tuple[AuditRow, ...]:
        return tuple(self.rows[after : after + (limit or len(self.rows))])


def test_an_edited_audit_row_is_named(view: Any) -> None:
    check = verify(EditedView(list(audit_rows(view))))  # type: ignore[arg-type]
    assert (check.whole, check.code) == (False, "audit_edited")
    assert "row 3" in check.why


def test_status_says_per_layer_what_it_may_do(view: Any) -> None:
    def modes(**env: str) -> list[str]:
        found = settings(**{f"PRX__{key}": value for key, value in env.items()})
        return [mode_of(found, layer) for layer in Layer]

    layers = {"L2__ENABLED": "true", "L3__ENABLED": "true"}
    assert modes(**layers) == ["off", "off", "off"]
    assert modes(ENABLED="true", **layers) == ["by itself below risk 0.5", "asks you", "asks you"]
    assert modes(ENABLED="true", AUTO_APPLY="true", **layers)[1:] == ["applies by itself", "asks you"]
    alone = modes(ENABLED="true", AUTO_APPLY="true", L3__REQUIRE_APPROVAL="false", **layers)
    assert alone[2] == "applies by itself"


def test_status_counts_what_runs_and_what_waits(world: World, view: Any) -> None:
    found = status(view, settings(), "default")
    assert (found.engine, found.version, found.total_cycles, found.rollbacks) == ("off", "v1.1", 7, 1)
    assert found.awaiting_approval == (world.ids["waiting"],)
    assert (found.experiments_running, found.open_incidents, found.findings) == (1, 1, 2)
    assert [one.job for one in found.jobs] == ["analysis", "evolve", "layer.prompt"]
    prompt = next(one for one in found.layers if one.layer is Layer.PROMPT)
    assert (prompt.breaker, prompt.in_work, prompt.last_run) == ("open", 0, NOW - DAY)


@pytest.mark.parametrize(
    ("control", "engine"),
    [
        (Control(agent="default", paused=True, why="holiday"), "paused"),
        (Control(agent="default", paused=True, killed=True, why="fire"), "killed"),
    ],
)
def test_a_pause_or_a_kill_is_told_with_its_reason(control: Control, engine: str) -> None:
    world = build_world()
    with world.ledger.transaction(now=NOW, actor="person:ada") as tx:
        tx.put(control)
    with world.ledger.view() as view:
        found = status(view, settings(PRX__ENABLED="true"), "default")
    assert (found.engine, found.why) == (engine, control.why)


def test_the_full_form_has_every_field_also_those_that_hold_nothing(world: World, view: Any) -> None:
    shown = full(view.get(Experiment, world.ids["running"]))
    assert list(shown)[:12] == [
        "experiment_id", "decision_id", "layer", "status", "created_at", "control", "treatment",
        "converged_at", "control_sessions", "treatment_sessions", "control_fitness", "treatment_fitness",
    ]  # fmt: skip
    assert shown["p_value"] is None
    assert shown["winner"] is None
    assert (shown["layer"], shown["created_at"]) == ("strategy", "2026-11-19T12:00:00Z")
    assert full(view.get(Version, world.ids["v1.0"]))["parents"] == []
