import pytest
from propose_desk import REQUESTS, finding, store, trace

from prx.domain.answers import Failed, Passed
from prx.domain.editlimits import EditLimits, check_size, text_size
from prx.propose.draft import ProposeRules
from prx.propose.evidence import Case, agreed_case, cases_of, copied_span, users_behind

RULES = ProposeRules()
HUNDRED = "\n".join(" ".join(f"w{line}x{n}" for n in range(10)) for line in range(10))


@pytest.mark.parametrize(
    ("after", "ops", "code"),
    [
        (HUNDRED + "\n" + "new " * 24, 1, None),
        (HUNDRED + "\n" + "new " * 25, 1, "grows_too_much"),
        (HUNDRED + "\n新" + "字" * 48, 1, "grows_too_much"),
        ("\n".join(HUNDRED.splitlines()[:8]), 2, None),
        ("\n".join(HUNDRED.splitlines()[:7]), 3, "shrinks_too_much"),
        (HUNDRED, 4, "too_many_ops"),
        (HUNDRED + "\n" + "y" * 601, 1, "line_too_long"),
    ],
)
def test_an_edit_beyond_a_limit_fails_with_its_code(after: str, ops: int, code: str | None) -> None:
    checked = check_size(HUNDRED, after, ops, EditLimits())
    if code is None:
        assert isinstance(checked, Passed)
    else:
        assert isinstance(checked, Failed)
        assert checked.code == code


def test_the_share_counts_for_long_prompts_and_the_absolute_cap_for_very_long_ones() -> None:
    long = "\n".join([HUNDRED] * 10)
    assert isinstance(check_size(long, long + "\n" + "new " * 100, 1, EditLimits()), Passed)
    assert isinstance(check_size(long, long + "\n" + "new " * 151, 1, EditLimits()), Failed)
    over = check_size(long + " more" * 190, long + " more" * 215, 1, EditLimits())
    assert isinstance(over, Failed)
    assert over.code in {"too_long", "line_too_long"}
    assert text_size("银行卡 card") == 2.5


def test_a_prompt_that_is_too_long_already_may_still_get_shorter() -> None:
    huge = "\n".join([HUNDRED] * 14)
    shorter = "\n".join(huge.splitlines()[:-2])
    assert isinstance(check_size(huge, shorter, 2, EditLimits()), Passed)


def test_cases_are_capped_per_user_and_keep_sessions_without_a_user() -> None:
    traces = store(
        *(trace(f"s{n}", "loud", REQUESTS[0]) for n in range(5)),
        *(trace(f"s{n}", None, REQUESTS[1]) for n in range(5, 8)),
        trace("s8", "calm", REQUESTS[2]),
    )
    found = cases_of(finding().evidence, traces, agent="default", rules=RULES)
    assert [case.session_id for case in found] == ["s0", "s1", "s5", "s6", "s7", "s8"]
    assert users_behind(found) == 2


def case(n: int, user: str | None, request: str, answer: str | None = None) -> Case:
    return Case(session_id=f"s{n}", user=user, request=request, response="", answer=answer)


def test_a_copied_run_of_words_is_seen_whatever_its_case_and_marks() -> None:
    secret = [case(0, "u0", "Call me on the old number of Vera, thanks")]
    text = "call me... ON THE old number"
    assert copied_span(text, secret, allowed="", rules=RULES) == ("call", "me", "on", "the", "old", "number")
    assert copied_span(text, secret, allowed=text, rules=RULES) is None
    assert copied_span("call me on the old", secret, allowed="", rules=RULES) is None


def test_three_copies_by_one_user_or_by_nobody_support_no_copied_run() -> None:
    words = "call me on the old number"
    for user in ("u0", None):
        assert copied_span(words, [case(n, user, words) for n in range(3)], allowed="", rules=RULES)
    assert copied_span(words, [case(n, f"u{n}", words) for n in range(3)], allowed="", rules=RULES) is None


def test_what_filled_a_slot_is_never_copied_however_short_unless_three_users_had_it() -> None:
    def filled(n: int, value: str) -> Case:
        return Case(f"s{n}", f"u{n}", "where is it", "soon", None, (value,))

    few = [filled(0, "Ada"), filled(1, "gold"), filled(2, "gold"), filled(3, "to")]
    assert copied_span("Greet ADA first.", few, allowed="", rules=RULES) == ("ada",)
    assert copied_span("Adapt to the user.", few, allowed="", rules=RULES) is None
    assert copied_span("Serve gold customers first.", few, allowed="", rules=RULES) == ("gold",)
    assert copied_span("Serve gold customers first.", few, allowed="a gold card", rules=RULES) is None
    assert copied_span("Serve gold ones.", [*few, filled(4, "gold")], allowed="", rules=RULES) is None
    lovelace = [filled(0, "Ada Lovelace, order A77123")]
    assert copied_span("As for Lovelace, be brief.", lovelace, allowed="", rules=RULES) == ("lovelace",)
    document = [filled(0, "Our shipping policy covers every parcel that leaves the house. " * 3 + "A77123")]
    assert copied_span("Name the shipping policy.", document, allowed="", rules=RULES) is None
    assert copied_span("Orders such as A77123.", document, allowed="", rules=RULES) == ("a77123",)
    assert copied_span("王小明さん", [filled(0, "王小明")], allowed="", rules=RULES) is not None


def test_an_agreed_case_needs_one_request_and_one_answer_from_three_users() -> None:
    agreed = [case(n, f"u{n}", "Opening hours? ", "9 to 5") for n in range(3)]
    assert agreed_case(agreed, 3) == agreed[0]
    assert agreed_case([*agreed[:2], case(3, "u3", "opening hours?", "never")], 3) is None
    assert agreed_case([case(n, f"u{n % 2}", "Opening hours?", "9 to 5") for n in range(6)], 3) is None
