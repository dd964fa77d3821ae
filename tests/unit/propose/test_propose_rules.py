import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from propose_desk import LINE, PROMPT, REQUESTS, considered, finding, store, trace, usual_traces

from prx.domain.answers import Failed, NotEnoughData
from prx.domain.changes import (
    AddExample,
    AddLine,
    PromptPatch,
    ReplaceLine,
    StrategyPatch,
    apply_prompt_ops,
)
from prx.domain.editlimits import EditLimits, text_size
from prx.domain.findings import FindingKind
from prx.domain.layers import Layer
from prx.domain.promptlines import fixed_sections, placeholders
from prx.domain.versions import Strategy
from prx.propose.cjkterms import joined_terms
from prx.propose.draft import Considered, Draft, PastChange, ProposeRules
from prx.propose.ruleedit import with_terms


def only(result: Considered) -> Draft:
    assert result.refused == ()
    (draft,) = result.drafts
    return draft


def op_of(draft: Draft) -> object:
    assert isinstance(draft.change, PromptPatch)
    (op,) = draft.change.ops
    return op


def test_the_weak_line_is_extended_by_the_words_that_users_share() -> None:
    draft = only(considered(finding(), traces=usual_traces()))
    assert op_of(draft) == ReplaceLine(old=LINE, new=f"{LINE} (delivery, tracking, courier, parcel)")
    assert (draft.layer, draft.trigger, draft.author) == (Layer.PROMPT, "f1", "engine:rule")
    assert set(draft.evidence) == {f"s{n}" for n in range(12)}


def test_a_second_edit_extends_the_bracket_of_the_first() -> None:
    once = f"{LINE} (delivery, tracking)"
    prompt = PROMPT.replace(LINE, once)
    draft = only(
        considered(finding(line=once, terms=("courier", "parcel")), traces=usual_traces(), prompt=prompt)
    )
    assert op_of(draft) == ReplaceLine(old=once, new=f"{LINE} (delivery, tracking, courier, parcel)")


def test_brackets_that_hold_a_remark_are_left_as_they_are() -> None:
    assert with_terms("- fees: costs (see rule 4).", ["abroad"]) == "- fees: costs (see rule 4) (abroad)."
    assert with_terms("- fees: costs (hidden, late).", ["abroad"]) == "- fees: costs (hidden, late, abroad)."
    assert with_terms("- 费用：费用。", ["国外"]) == "- 费用：费用 (国外)。"


def test_chinese_bigrams_become_the_words_that_three_users_wrote() -> None:
    line = "- card: 关于卡片"
    asked = ("快递公司没来", "快递公司在哪里", "问快递公司", "快递很慢")
    traces = store(*(trace(f"s{n}", f"u{n}", text, answer="card") for n, text in enumerate(asked)))
    weak = finding(intent="card", line=line, terms=("快递", "递公", "公司"))
    draft = only(considered(weak, traces=traces, prompt=f"分类\n{line}\n- pin: 密码\n"))
    assert op_of(draft) == ReplaceLine(old=line, new=f"{line} (快递公司)")
    seldom = ("快递公司", *asked[3:] * 3)
    two = store(*(trace(f"s{n}", f"u{n}", text, answer="card") for n, text in enumerate(seldom)))
    draft = only(considered(weak, traces=two, prompt=f"分类\n{line}\n- pin: 密码\n"))
    assert op_of(draft) == ReplaceLine(old=line, new=f"{line} (快递)")


def test_bigrams_that_users_wrote_apart_stay_apart() -> None:
    said = [(f"u{n}", text) for n, text in enumerate(("快递 递公", "快递 递公", "快递 递公", "快递公"))]
    assert joined_terms(("递公", "快递"), said, min_users=3) == ("递公", "快递")
    together = [(f"u{n}", "快递公") for n in range(3)]
    assert joined_terms(("递公", "快递", "card"), together, min_users=3) == ("快递公", "card")


def test_a_missing_line_is_added_in_the_form_of_the_others() -> None:
    prompt = PROMPT.replace(LINE + "\n", "")
    draft = only(considered(finding(line=None), traces=usual_traces(), prompt=prompt))
    assert op_of(draft) == AddLine(text="- card_arrival: delivery, tracking, courier, parcel")


def test_the_expected_effect_is_half_of_the_excess_and_says_that_it_is_assumed() -> None:
    expected = only(considered(finding(), traces=usual_traces())).expected
    # (30/50 - 10/100) x 50/150 x 0.65 = 0.108333; half of it is assumed
    assert expected.estimate == pytest.approx(0.054167, abs=1e-6)
    assert expected.low == pytest.approx(-0.054167, abs=1e-6)
    assert expected.high == pytest.approx((0.72 - 0.1) / 3 * 0.65, abs=1e-6)
    assert expected.source.startswith("assumed, not measured")


def test_equal_input_and_seed_give_equal_drafts() -> None:
    one, two = (considered(finding(), traces=usual_traces(), seed=7) for _ in range(2))
    assert one == two


def test_a_change_that_failed_is_not_proposed_again_but_another_is() -> None:
    first = only(considered(finding(), traces=usual_traces()))
    past = [PastChange(first.fingerprint, first.change, "lost its experiment")]
    second = only(considered(finding(), traces=usual_traces(), rejected=past))
    assert second.fingerprint != first.fingerprint
    assert second.change != first.change


def test_when_every_choice_failed_before_the_answer_says_so() -> None:
    past: list[PastChange] = []
    result = considered(finding(terms=("delivery",)), traces=usual_traces())
    for _ in range(3):
        if not result.drafts:
            break
        past.append(PastChange(result.drafts[0].fingerprint, result.drafts[0].change))
        result = considered(finding(terms=("delivery",)), traces=usual_traces(), rejected=past)
    (refusal,) = result.refused
    assert isinstance(refusal.answer, Failed)
    assert refusal.answer.code == "failed_before"


def test_words_of_fewer_than_three_users_are_not_used() -> None:
    said = [("u0", "delivery"), ("u1", "delivery"), ("u2", "hello"), ("u3", "other")]
    traces = store(*(trace(f"s{n}", user, word) for n, (user, word) in enumerate(said)))
    (refusal,) = considered(finding(), traces=traces).refused
    assert isinstance(refusal.answer, NotEnoughData)


def test_one_user_with_many_sessions_backs_nothing() -> None:
    traces = store(*(trace(f"s{n}", "mallory", "zyxxyz delivery") for n in range(12)))
    result = considered(finding(terms=("zyxxyz", "delivery")), traces=traces)
    assert result.drafts == ()


def test_sessions_without_a_user_back_nothing() -> None:
    traces = store(*(trace(f"s{n}", None, "zyxxyz delivery") for n in range(12)))
    assert considered(finding(terms=("zyxxyz",)), traces=traces).drafts == ()


def test_a_session_without_a_user_does_not_complete_two_users() -> None:
    traces = store(
        trace("s0", "u0", "delivery zyxxyz"),
        trace("s1", "u1", "delivery zyxxyz"),
        trace("s2", None, "delivery zyxxyz"),
        trace("s3", "u3", "delivery"),
    )
    draft = only(considered(finding(terms=("zyxxyz", "delivery")), traces=traces))
    assert op_of(draft) == ReplaceLine(old=LINE, new=f"{LINE} (delivery)")


def test_requests_whose_right_answer_nobody_told_back_nothing() -> None:
    traces = store(*(trace(f"s{n}", f"u{n}", REQUESTS[n % 6], answer=None) for n in range(12)))
    (refusal,) = considered(finding(), traces=traces).refused
    assert isinstance(refusal.answer, NotEnoughData)


def test_forged_evidence_ids_and_sessions_of_other_agents_count_for_nothing() -> None:
    foreign = store(*(trace(f"s{n}", f"u{n}", REQUESTS[n % 6], agent="other") for n in range(12)))
    assert considered(finding(), traces=foreign).drafts == ()
    assert considered(finding(evidence=("no-such-session",)), traces=usual_traces()).drafts == ()


def test_terms_in_a_tampered_finding_that_no_user_said_are_not_used() -> None:
    draft = only(considered(finding(terms=("approve", "delivery", "system")), traces=usual_traces()))
    assert op_of(draft) == ReplaceLine(old=LINE, new=f"{LINE} (delivery)")


def test_an_example_is_added_only_when_three_users_sent_the_very_request_and_answer() -> None:
    agreed = store(*(trace(f"s{n}", f"u{n}", "card in the mail") for n in range(3)))
    draft = only(considered(finding(terms=()), traces=agreed))
    assert op_of(draft) == AddExample(user="card in the mail", answer="card_arrival")
    two = store(
        *(trace(f"s{n}", f"u{n % 2}", "card in the mail") for n in range(4)), trace("s9", "u9", "card")
    )
    assert considered(finding(terms=()), traces=two).drafts == ()


def test_a_prompt_that_no_longer_exists_is_not_edited() -> None:
    (refusal,) = considered(finding(prompt="gone"), traces=usual_traces()).refused
    assert isinstance(refusal.answer, NotEnoughData)


def test_a_line_inside_a_fixed_section_is_left_alone() -> None:
    prompt = f"Sort.\n<!-- prx:fixed -->\n{LINE}\n<!-- /prx:fixed -->\n- top_up: adding money\n"
    draft = only(considered(finding(), traces=usual_traces(), prompt=prompt))
    assert isinstance(op_of(draft), AddLine)


def test_a_prompt_that_ends_in_an_open_fixed_section_takes_no_new_line() -> None:
    prompt = "Sort.\n- top_up: adding money\n<!-- prx:fixed -->\nNever reveal account numbers.\n"
    (refusal,) = considered(finding(line=None), traces=usual_traces(), prompt=prompt).refused
    assert isinstance(refusal.answer, Failed)
    assert refusal.answer.code == "fixed_section"


@given(
    requests=st.lists(st.text(max_size=80), min_size=6, max_size=6),
    terms=st.lists(st.text(min_size=1, max_size=12), max_size=6),
    growth=st.floats(0.01, 0.3),
    seed=st.integers(0, 5),
)
@settings(max_examples=120, deadline=None)
def test_whatever_the_records_say_an_edit_stays_within_its_limits(
    requests: list[str], terms: list[str], growth: float, seed: int
) -> None:
    limits = EditLimits(growth=growth, small_room=6)
    many = store(*(trace(f"s{n}", f"u{n}", requests[n % 6] + " delivery") for n in range(12)))
    result = considered(
        finding(terms=(*terms, "delivery")), traces=many, seed=seed, rules=ProposeRules(limits=limits)
    )
    for draft in result.drafts:
        assert isinstance(draft.change, PromptPatch)
        after = apply_prompt_ops(PROMPT, draft.change.ops)
        assert fixed_sections(after) == fixed_sections(PROMPT)
        assert placeholders(after) == placeholders(PROMPT)
        assert text_size(after) <= text_size(PROMPT) + max(growth * text_size(PROMPT), 6)
        assert after.isprintable() or "\n" in after
        assert 0 <= draft.risk <= 1


def test_a_cheaper_equal_model_becomes_the_default_of_its_intent() -> None:
    cost = finding(
        kind=FindingKind.COST_INEFFICIENCY,
        layer=Layer.STRATEGY,
        intent="faq",
        model="large",
        alternative="small",
        rate=None,
    )
    draft = only(considered(cost, traces=usual_traces()))
    assert draft.change == StrategyPatch(path="default_models.faq", old=None, new="small")
    past = [PastChange(draft.fingerprint, draft.change)]
    assert considered(cost, traces=usual_traces(), rejected=past).drafts == ()


def test_a_slow_model_moves_the_weight_of_latency_by_at_most_fifteen_percent() -> None:
    slow = finding(
        kind=FindingKind.LATENCY_OUTLIER, layer=Layer.STRATEGY, intent=None, model="big", rate=None
    )
    draft = only(considered(slow, traces=usual_traces()))
    old = Strategy().router.epsilon
    assert draft.change == StrategyPatch(path="router.epsilon", old=old, new=pytest.approx(old * 1.15))


def test_knowledge_that_three_users_agree_on_and_no_entry_holds_is_named_for_the_app_to_store() -> None:
    gap = finding(kind=FindingKind.MEMORY_GAP, layer=Layer.MEMORY, prompt=None)
    agreed = store(*(trace(f"s{n}", f"u{n}", "opening hours?", answer="nine to five") for n in range(3)))
    found = considered(gap, traces=agreed)
    assert found.drafts == ()
    (refused,) = found.refused
    assert isinstance(refused.answer, Failed)
    assert "'opening hours?: nine to five'" in refused.answer.why
    assert "session.remember" in refused.answer.why
    alone = store(*(trace(f"s{n}", "mallory", "opening hours?", answer="never") for n in range(9)))
    (unsure,) = considered(gap, traces=alone).refused
    assert isinstance(unsure.answer, NotEnoughData)


def test_no_more_drafts_of_a_layer_than_allowed_and_the_most_severe_first() -> None:
    cost = [
        finding(
            finding_id=f"f{n}",
            severity=1 + n % 5,
            kind=FindingKind.COST_INEFFICIENCY,
            layer=Layer.STRATEGY,
            intent=f"i{n}",
            alternative="small",
        )
        for n in range(8)
    ]
    result = considered(*cost, traces=usual_traces())
    assert len(result.drafts) == 5
    assert result.drafts[0].trigger == "f4"
    assert {r.answer.code for r in result.refused if isinstance(r.answer, Failed)} == {"enough_drafts"}


def test_two_findings_never_give_the_same_change_twice() -> None:
    result = considered(finding(), finding(finding_id="f2"), traces=usual_traces())
    prints = [draft.fingerprint for draft in result.drafts]
    assert len(prints) == len(set(prints))
