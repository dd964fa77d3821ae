import random

import pytest
from change_costumes import COSTUMES, FAILED, OLD, dressed, really_changed
from hypothesis import given, settings
from hypothesis import strategies as st

from prx.domain.changes import (
    AddLine,
    DeleteLine,
    MemoryAdd,
    MemoryArchive,
    MemoryPatch,
    PromptPatch,
    ReplaceLine,
    StrategyPatch,
)
from prx.propose.draft import PastChange
from prx.propose.fingerprint import blocked_by, fingerprint

LONG = (
    "Refund every customer within 14 days when their parcel was lost abroad, a carrier confirms that by "
    "letter, our warehouse has checked both addresses, and nobody else signed for it at any door"
)
CHINESE = "在客户提供订单号码之后可以承诺退款并且说明处理时间"
PAST = tuple(PastChange(fingerprint(change), change, "lost") for change in FAILED)


def test_of_300_cosmetic_copies_of_failed_changes_at_least_296_are_blocked() -> None:
    rng = random.Random(2026)
    copies = [dressed(rng.choice(FAILED), rng) for _ in range(300)]
    blocked = sum(blocked_by(copy, PAST) is not None for copy in copies)
    assert blocked >= 296


def test_of_300_real_edits_at_least_270_are_allowed() -> None:
    rng = random.Random(2027)
    edits = [really_changed(rng.choice(FAILED), rng) for _ in range(300)]
    allowed = sum(blocked_by(edit, PAST) is None for edit in edits)
    assert allowed >= 270


@pytest.mark.parametrize("costume", COSTUMES, ids=lambda costume: costume.__name__)
def test_each_costume_alone_hides_nothing(costume: object) -> None:
    rng = random.Random(11)
    for change in FAILED[:6]:
        (op,) = change.ops
        assert isinstance(op, AddLine)
        copy = PromptPatch(prompt="main", ops=(AddLine(text=costume(op.text, rng)),))  # type: ignore[operator]
        assert blocked_by(copy, PAST) is not None, copy


def test_every_failed_change_has_its_own_fingerprint() -> None:
    assert len({fingerprint(change) for change in FAILED}) == len(FAILED)


def test_the_same_words_added_as_a_line_or_into_a_line_are_the_same_change() -> None:
    line = AddLine(text="- fees: charges, commission, hidden deductions")
    into = ReplaceLine(old="Be kind.", new="Be kind. Fees: commission, charges, hidden deductions")
    past = [PastChange("sha256:x", PromptPatch(prompt="main", ops=(line,)))]
    assert blocked_by(PromptPatch(prompt="main", ops=(into,)), past) is not None


def test_the_same_change_of_another_prompt_or_line_is_another_change() -> None:
    change = PromptPatch(prompt="main", ops=(ReplaceLine(old=OLD, new=f"{OLD} (delivery)"),))
    elsewhere = PromptPatch(
        prompt="main", ops=(ReplaceLine(old="- pin: codes", new="- pin: codes (delivery)"),)
    )
    other = PromptPatch(prompt="second", ops=change.ops)
    past = [PastChange(fingerprint(change), change)]
    assert blocked_by(elsewhere, past) is None
    assert blocked_by(other, past) is None
    assert blocked_by(change, past) is not None


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (
            LONG,
            LONG.replace("14", "30"),
        ),
        (
            LONG,
            LONG.replace("Refund", "Never refund"),
        ),
        (
            "在客户提供订单号码之后可以承诺退款并且说明处理时间",
            "在客户提供订单号码之后不可以承诺退款并且说明处理时间",
        ),
    ],
)
def test_one_number_or_negation_makes_a_long_line_another_change(a: str, b: str) -> None:
    past = [PastChange("sha256:x", PromptPatch(prompt="main", ops=(AddLine(text=a),)))]
    assert blocked_by(PromptPatch(prompt="main", ops=(AddLine(text=b),)), past) is None


def test_an_unknown_filler_word_in_a_long_line_is_caught_as_near_duplicate() -> None:
    past = [PastChange("sha256:x", PromptPatch(prompt="main", ops=(AddLine(text=LONG),)))]
    assert blocked_by(PromptPatch(prompt="main", ops=(AddLine(text=f"Hereby {LONG}"),)), past) is not None


def test_a_fingerprint_alone_blocks_when_the_past_change_itself_is_gone() -> None:
    assert blocked_by(FAILED[0], [PastChange(fingerprint(FAILED[0]))]) is not None


@pytest.mark.parametrize(
    ("value", "blocked"), [(0.115, True), (0.1150001, True), (0.114, True), (0.13, False)]
)
def test_a_failed_parameter_value_blocks_its_near_neighbours_only(value: float, *, blocked: bool) -> None:
    failed = StrategyPatch(path="router.epsilon", old=0.1, new=0.115)
    again = StrategyPatch(path="router.epsilon", old=0.1, new=value)
    assert (blocked_by(again, [PastChange(fingerprint(failed), failed)]) is not None) == blocked


def test_another_parameter_or_model_is_another_change() -> None:
    failed = StrategyPatch(path="default_models.faq", old=None, new="small")
    past = [PastChange(fingerprint(failed), failed)]
    assert blocked_by(StrategyPatch(path="default_models.faq", old="large", new="small"), past) is not None
    assert blocked_by(StrategyPatch(path="default_models.faq", old=None, new="tiny"), past) is None
    assert blocked_by(StrategyPatch(path="default_models.tax", old=None, new="small"), past) is None


def test_a_memory_change_is_known_by_its_text_and_what_it_archives() -> None:
    failed = MemoryPatch(
        ops=(MemoryAdd(memory_id="new1", text="Opens at 9."), MemoryArchive(memory_id="a", why="x"))
    )
    again = MemoryPatch(
        ops=(MemoryArchive(memory_id="a", why="y"), MemoryAdd(memory_id="new2", text="opens at 9"))
    )
    other = MemoryPatch(ops=(MemoryArchive(memory_id="b", why="x"),))
    past = [PastChange(fingerprint(failed), failed)]
    assert blocked_by(again, past) is not None
    assert blocked_by(other, past) is None


@given(st.text(min_size=1, max_size=120), st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_change_repeats_itself_whatever_it_holds(text: str, old: str) -> None:
    for op in (AddLine(text=text), ReplaceLine(old=old, new=text), DeleteLine(old=text)):
        change = PromptPatch(prompt="main", ops=(op,))
        assert fingerprint(change) == fingerprint(change)
        assert blocked_by(change, [PastChange("sha256:other", change)]) is not None
