import pytest
from hypothesis import given
from hypothesis import strategies as st
from propose_desk import LINE, PROMPT

from prx.domain.answers import Failed, NotEnoughData
from prx.domain.changes import (
    AddLine,
    DeleteLine,
    MemoryAdd,
    MemoryArchive,
    MemoryPatch,
    PromptPatch,
    ReplaceAll,
    ReplaceLine,
    StrategyPatch,
)
from prx.domain.editlimits import text_size
from prx.domain.versions import RouterWeights, Strategy
from prx.propose.risk import risk_of
from prx.propose.strategystep import Share, automix_step, default_model_step, router_step


def test_risk_follows_the_documented_formula() -> None:
    size = text_size(PROMPT)
    add = PromptPatch(prompt="main", ops=(AddLine(text="three more words"),))
    assert risk_of(add, before=PROMPT) == pytest.approx(0.25 + 0.3 * 3 / size, abs=1e-4)
    assert risk_of(add, before=PROMPT, by_model=True) == pytest.approx(0.35 + 0.3 * 3 / size, abs=1e-4)
    extended = PromptPatch(prompt="main", ops=(ReplaceLine(old=LINE, new=f"{LINE} (two words)"),))
    assert risk_of(extended, before=PROMPT) == pytest.approx(0.25 + 0.3 * 2 / size, abs=1e-4)
    rewritten = PromptPatch(prompt="main", ops=(ReplaceLine(old=LINE, new="four quite other words"),))
    assert risk_of(rewritten, before=PROMPT) == pytest.approx(0.35 + 0.3 * 4 / size, abs=1e-4)
    assert risk_of(PromptPatch(prompt="main", ops=(ReplaceAll(text="x"),)), before=PROMPT) == 0.65
    assert risk_of(StrategyPatch(path="router.beta", old=0.5, new=0.575)) == pytest.approx(0.7)
    assert risk_of(StrategyPatch(path="router.beta", old=0.5, new=0.5375)) == pytest.approx(0.55)
    assert risk_of(StrategyPatch(path="default_models.a", old=None, new="m")) == pytest.approx(0.7)
    prune = MemoryPatch(ops=(MemoryArchive(memory_id="a", why="x"),))
    assert risk_of(prune, entries=10) == pytest.approx(0.1 + 0.03 + 0.1)
    assert risk_of(MemoryPatch(ops=(MemoryAdd(memory_id="a", text="x"),)), entries=100) == pytest.approx(
        0.103
    )


@given(st.lists(st.text(max_size=40), max_size=4), st.text(max_size=200))
def test_risk_always_lies_in_zero_to_one(lines: list[str], before: str) -> None:
    ops = tuple(DeleteLine(old=line) for line in lines)
    assert 0 <= risk_of(PromptPatch(prompt="main", ops=ops), before=before, by_model=True) <= 1


@given(
    term=st.sampled_from(["alpha", "beta", "gamma", "delta", "epsilon"]),
    old=st.floats(0, 1),
    up=st.booleans(),
)
def test_a_router_step_never_exceeds_fifteen_percent_nor_leaves_its_range(
    term: str, old: float, up: bool
) -> None:
    step = router_step(term, RouterWeights(**{term: old}), up=up)
    if isinstance(step, Failed):
        assert step.code == "out_of_range"
        return
    assert step.path == f"router.{term}"
    assert isinstance(step.new, float)
    assert 0 <= step.new <= 1
    assert (step.new > old) is up
    assert abs(step.new - old) <= max(0.15 * old, 0.01) + 1e-6


def test_the_threshold_rises_when_served_cheap_answers_are_surely_too_bad() -> None:
    bad, unsure = Share(30, 100, 0.22, 0.40), Share(0, 0, 0.0, 1.0)
    step = automix_step(0.7, kept=bad, escalated_cheap=unsure, wanted=0.8)
    assert step == StrategyPatch(path="automix_threshold", old=0.7, new=0.75)


def test_the_threshold_falls_when_thrown_away_cheap_answers_are_surely_good() -> None:
    fine, good = Share(85, 100, 0.77, 0.91), Share(95, 100, 0.89, 0.98)
    step = automix_step(0.7, kept=fine, escalated_cheap=good, wanted=0.8)
    assert step == StrategyPatch(path="automix_threshold", old=0.7, new=0.65)


def test_the_threshold_stays_when_nothing_is_sure_and_at_the_end_of_its_range() -> None:
    unsure = Share(8, 10, 0.49, 0.94)
    stays = automix_step(0.7, kept=unsure, escalated_cheap=unsure, wanted=0.8)
    assert isinstance(stays, NotEnoughData)
    bad = Share(1, 100, 0.0, 0.05)
    assert isinstance(automix_step(0.95, kept=bad, escalated_cheap=unsure, wanted=0.8), Failed)


def test_a_model_that_is_the_default_already_is_no_change() -> None:
    assert isinstance(default_model_step("faq", "small", Strategy(default_models={"faq": "small"})), Failed)
