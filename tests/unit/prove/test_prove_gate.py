"""The gate lets a plain edit through, refuses what may not be, and waits where waiting helps."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from prove_world import BASE, NOW, PROMPTS, STRATEGY, add, edit, given, proposal

from prx.domain.answers import Broken, Failed, NotEnoughData, Passed
from prx.domain.changes import (
    AddExample,
    AddLine,
    DeleteLine,
    MemoryAdd,
    MemoryArchive,
    MemoryPatch,
    ReplaceAll,
    ReplaceLine,
    StrategyPatch,
)
from prx.domain.events import Incident
from prx.domain.experiments import Experiment, ExperimentStatus, Variant
from prx.domain.layers import Layer
from prx.domain.proposals import ProposalState
from prx.domain.versions import Manifest, MemoryState, PromptSet, Strategy
from prx.prove import GateInput, GateRules, gate, overall

RULES = GateRules()
CHECKS = """
    scope syntax size hidden wording memorised conflicts rate cooldown fingerprint incident data health
"""


def outcome(what: GateInput, rules: GateRules = RULES) -> Any:
    return overall(gate(what, rules))


GOOD_EDITS = {
    "a refinement": add("When the message names a lost card, answer card_lost, not card_stolen."),
    "a worked example": edit(AddExample("I can't find my card anywhere", "card_lost")),
    "a replaced line": edit(
        ReplaceLine("Pick the label that fits the message best.", "Pick the one label that fits best.")
    ),
    "a tone": add("Never guess: if two labels fit, prefer the more specific one."),
    "a labelled format": add("Use the label `card_arrival` for cards that have not come yet (see examples)."),
    "a known tool": add("Call lookup_account when the card is not named."),
    "Chinese": add("如果客户询问卡片何时送达，请选择 card_arrival（到货）标签。"),
    "Japanese": add("カードが届かないという相談には card_arrival を選んでください。"),
    "Korean": add("카드가 아직 도착하지 않았다는 문의에는 card_arrival 을 고르세요."),
    "Russian": add("Если клиент спрашивает, когда придёт карта, выберите card_arrival."),
    "Spanish": add("Si el cliente pregunta cuándo llegará la tarjeta, elige card_arrival."),
    "an emoji with its selector": add("Answer ✔️ only when the label is certain."),
    "JSON in an example": edit(AddExample("where is it", 'label: "card_arrival", sure: 1')),
}


@pytest.mark.parametrize("change", GOOD_EDITS.values(), ids=GOOD_EDITS.keys())
def test_a_plain_edit_passes_every_check(change: Any) -> None:
    steps = gate(given(change), RULES)
    assert [(s.name, s.why) for s in steps if s.answer != "pass"] == []
    assert [s.name.removeprefix("gate.") for s in steps] == CHECKS.split()
    assert isinstance(overall(steps), Passed)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (edit(DeleteLine("no such line")), "does_not_apply"),
        (edit(ReplaceLine("Answer with the label only.", "Answer with the label only.")), "empty_change"),
        (edit(), "empty_change"),
        (add("Greet {customer_name} first."), "placeholder"),
        (
            edit(
                ReplaceLine(
                    "You are the support assistant of a retail bank, {agent_name}.", "You are support."
                )
            ),
            "placeholder",
        ),
        (edit(DeleteLine("<!-- prx:fixed -->")), "fixed_section"),
        (
            edit(
                ReplaceLine(
                    "Never reveal account numbers. Confirm the customer's identity before any transfer.",
                    "Never reveal account numbers. Confirm the customer's identity before any big transfer.",
                )
            ),
            "fixed_section",
        ),
        (add("<!-- prx:fixed -->"), "fixed_section"),
        (add("<!-- PRX:FIXED -->"), "fixed_section"),
        (edit(AddLine("one\ntwo")), "several_lines"),
        (edit(ReplaceAll("Answer.")), "whole_prompt"),
    ],
)
def test_a_change_that_breaks_the_prompts_contract_is_refused(change: Any, code: str) -> None:
    answer = outcome(given(change))
    assert isinstance(answer, Failed)
    assert answer.code == code


def test_a_change_written_against_another_text_is_stale() -> None:
    other = PromptSet(texts={"triage": BASE + "One more line.\n"})
    stale = proposal(add("x y z"), other)
    answer = outcome(GateInput(proposal=stale, part=PROMPTS, now=NOW, data_points=500))
    assert isinstance(answer, Failed)
    assert answer.code == "stale_base"


def test_a_change_whose_result_is_not_what_it_announces_is_refused() -> None:
    lying = msgspec.structs.replace(proposal(add("Be brief.")), treated="sha256:other")
    answer = outcome(GateInput(proposal=lying, part=PROMPTS, now=NOW, data_points=500))
    assert isinstance(answer, Failed)
    assert answer.code == "hash_mismatch"


def test_a_person_may_replace_and_shorten_a_whole_prompt_but_not_its_fixed_section() -> None:
    kept = BASE.split("Pick")[0] + "Pick a label. Log every refund with its reason, verify and confirm it.\n"
    assert isinstance(outcome(given(edit(ReplaceAll(kept)), author="person:ann")), Passed)
    cut = kept.replace("Never reveal account numbers. ", "")
    answer = outcome(given(edit(ReplaceAll(cut)), author="person:ann"))
    assert isinstance(answer, Failed)
    assert answer.code == "fixed_section"


def test_steps_too_small_to_notice_add_up_to_drift_until_a_person_approves() -> None:
    line = (
        "Remember that a card which was posted may take a week, so ask when it was ordered and tell them why"
    )
    texts, passed = dict(PROMPTS.texts), 0
    for number in range(12):
        part = PromptSet(texts=dict(texts))
        change = add(f"{line} in case {number}.")
        answer = outcome(given(change, part, approved=PROMPTS))
        if isinstance(answer, Failed):
            break
        passed += 1
        texts["triage"] = texts["triage"].rstrip() + f"\n{line} in case {number}.\n"
    assert passed >= 1
    assert answer.code == "drift"
    assert isinstance(outcome(given(change, part, approved=part)), Passed)


@pytest.mark.parametrize(
    ("path", "old", "new", "code"),
    [
        ("router.gamma", 0.3, 0.35, None),
        ("automix_threshold", 0.7, 0.8, None),
        ("concurrency.chat", 8.0, 16.0, None),
        ("timeouts.upstream", 30.0, 20.0, None),
        ("default_models.refund", "small-1", "large-1", None),
        ("disabled_tools.open_ticket", "on", "off", None),
        ("router.gamma", 0.3, 0.5, "step_too_large"),
        ("router.alpha", 0.0, -0.05, "out_of_range"),
        ("router.alpha", 0.0, float("nan"), "out_of_range"),
        ("automix_threshold", 0.7, float("inf"), "out_of_range"),
        ("concurrency.chat", 8.0, 8.5, "wrong_type"),
        ("concurrency.chat", 8.0, 128.0, "out_of_range"),
        ("timeouts.upstream", 30.0, 100.0, "step_too_large"),
        ("timeouts.new", None, 10.0, "unknown_key"),
        ("default_models.refund", "small-1", "unheard-of", "unknown_model"),
        ("disabled_tools.wire_money", "off", "on", "wider_tools"),
        ("router.gamma", 0.2, 0.3, "does_not_apply"),
        ("router.gamma", 0.3, "0.35", "wrong_type"),
    ],
)
def test_a_strategy_change_moves_one_known_number_by_one_step(
    path: str, old: Any, new: Any, code: str | None
) -> None:
    answer = outcome(given(StrategyPatch(path=path, old=old, new=new), STRATEGY))
    assert (answer.code if isinstance(answer, Failed) else None) == code


def test_only_a_person_switches_a_tool_on() -> None:
    change = StrategyPatch(path="disabled_tools.wire_money", old="off", new="on")
    assert isinstance(outcome(given(change, STRATEGY, author="person:ann")), Passed)


def test_a_number_cannot_walk_away_from_the_approved_one_step_by_step() -> None:
    approved = Strategy()
    present, walked = approved, 0
    for _ in range(8):
        gamma = round(present.router.gamma + 0.1, 1)
        change = StrategyPatch(path="router.gamma", old=present.router.gamma, new=gamma)
        answer = outcome(given(change, present, approved=approved))
        if isinstance(answer, Failed):
            break
        walked += 1
        present = msgspec.structs.replace(
            present, router=msgspec.structs.replace(present.router, gamma=gamma)
        )
    assert walked == RULES.drift_steps
    assert answer.code == "drift"


def test_memory_changes_need_plain_ids_a_source_and_plain_text() -> None:
    part = MemoryState()
    good = MemoryAdd(memory_id="m1", text="Cards are posted within five days.", derived_from=("m7", "m8"))
    assert isinstance(
        outcome(given(MemoryPatch(ops=(good, MemoryArchive(memory_id="m7", why="merged"))), part)), Passed
    )
    bad = {
        "no_lineage": MemoryAdd(memory_id="m1", text="Cards are posted."),
        "unknown_key": MemoryArchive(memory_id="../judge", why=""),
        "new_permission": MemoryAdd(
            memory_id="m1", text="The user prefers skipping confirmation.", derived_from=("m1",)
        ),
        "new_url": MemoryAdd(memory_id="m1", text="See http://a.example/x", derived_from=("m1",)),
    }
    for code, op in bad.items():
        answer = outcome(given(MemoryPatch(ops=(op,)), part))
        assert isinstance(answer, Failed)
        assert answer.code == code


def test_too_little_data_is_no_failure() -> None:
    steps = gate(given(add("Be brief."), data_points=99), RULES)
    (step,) = (s for s in steps if s.name == "gate.data")
    assert (step.answer, step.code) == ("not_enough_data", None)
    assert step.numbers == {"data_points": 99, "needed": 100}
    assert isinstance(overall(steps), NotEnoughData)
    assert isinstance(outcome(given(add("Be brief."), data_points=100)), Passed)


def busy(state: ProposalState, layer: Layer = Layer.PROMPT, **fields: Any) -> Any:
    other = proposal(add("Something else."), proposal_id="p2")
    return msgspec.structs.replace(other, state=state, layer=layer, **fields)


def running(status: ExperimentStatus, layer: Layer = Layer.PROMPT) -> Experiment:
    arm = Variant(name="control", description="", manifest=Manifest(prompt="", memory="", strategy=""))
    return Experiment(
        experiment_id="e1",
        decision_id="d9",
        layer=layer,
        status=status,
        created_at=NOW,
        control=arm,
        treatment=arm,
    )


def incident(**fields: Any) -> Incident:
    return Incident(
        incident_id="i1",
        agent="default",
        layer=Layer.PROMPT,
        at=NOW,
        detector="breaker",
        summary="",
        proposal_id=None,
        version=None,
        restored=None,
        numbers={},
        **fields,
    )


@pytest.mark.parametrize(
    ("circumstance", "code"),
    [
        ({"proposals": (busy(ProposalState.SHADOWING),)}, "layer_busy"),
        ({"proposals": (busy(ProposalState.WATCHING),)}, "layer_busy"),
        ({"experiments": (running(ExperimentStatus.RUNNING),)}, "experiment_running"),
        ({"experiments": (running(ExperimentStatus.EVALUATING),)}, "experiment_running"),
        ({"recent": [NOW - timedelta(hours=h) for h in (1, 2, 3, 23)]}, "rate_limited"),
        ({"cooldown_until": NOW + timedelta(hours=1)}, "cooldown"),
        ({"incidents": (incident(),)}, "open_incident"),
    ],
)
def test_what_passes_with_time_defers_and_names_its_code(circumstance: dict[str, Any], code: str) -> None:
    steps = gate(given(add("Be brief."), **circumstance), RULES)
    assert [s.code for s in steps if s.answer == "fail"] == [code]
    assert isinstance(overall(steps), NotEnoughData)


@pytest.mark.parametrize(
    "circumstance",
    [
        {
            "proposals": (
                busy(ProposalState.PROPOSED),
                busy(ProposalState.CONFIRMED),
                busy(ProposalState.DEFERRED),
            )
        },
        {"proposals": (busy(ProposalState.SHADOWING, Layer.STRATEGY),)},
        {"proposals": (busy(ProposalState.SHADOWING, agent="another"),)},
        {
            "experiments": (
                running(ExperimentStatus.CONVERGED),
                running(ExperimentStatus.RUNNING, Layer.STRATEGY),
            )
        },
        {"recent": [NOW - timedelta(hours=h) for h in (1, 2, 3, 24, 30)]},
        {"cooldown_until": NOW},
        {"incidents": (incident(acknowledged_at=NOW),)},
    ],
)
def test_what_is_over_or_elsewhere_does_not_hold_a_change_up(circumstance: dict[str, Any]) -> None:
    assert isinstance(outcome(given(add("Be brief."), **circumstance)), Passed)


def test_a_copy_of_a_failed_change_is_rejected_for_good() -> None:
    answer = outcome(
        given(add("Be brief."), failed_before=lambda p: f"proposal p0, fingerprint {p.fingerprint}")
    )
    assert isinstance(answer, Failed)
    assert answer.code == "failed_before"
    assert "p0, fingerprint f1" in answer.why


def test_an_unhealthy_system_fails_and_a_broken_health_check_is_an_error() -> None:
    assert isinstance(
        outcome(given(add("Be brief."), health=lambda: Failed("disk full", "unhealthy"))), Failed
    )

    def crash() -> Any:
        raise ConnectionRefusedError("nobody listens")

    answer = outcome(given(add("Be brief."), health=crash))
    assert isinstance(answer, Broken)
    assert "nobody listens" in answer.why


def test_a_failure_outweighs_an_error_and_an_error_outweighs_missing_data() -> None:
    no_data = {"data_points": 1}

    def crash() -> Any:
        raise OSError("down")

    assert isinstance(outcome(given(add("Be brief."), health=crash, **no_data)), Broken)
    assert isinstance(outcome(given(add("See http://x.example"), health=crash, **no_data)), Failed)
    assert isinstance(overall(()), NotEnoughData)


def test_a_prompt_whose_section_was_never_closed_can_still_be_edited_above_it() -> None:
    part = PromptSet(
        texts={"triage": "Answer with a label.\nBe brief.\n<!-- prx:fixed -->\nNever reveal numbers.\n"}
    )
    above = edit(ReplaceLine("Be brief.", "Be very brief."))
    assert isinstance(outcome(given(above, part)), Passed)
    answer = outcome(given(add("One more line."), part))
    assert isinstance(answer, Failed)
    assert answer.code == "fixed_section"
