import json
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prx.domain.experiments import TREATMENT
from prx.domain.layers import Layer
from prx.domain.records import Assignment, Exposure, Interaction, Record
from prx.domain.serving import ServedExperiment, Serving
from prx.domain.versions import Strategy
from prx.live.automix import VERIFIER, confidence
from prx.live.evolution import Evolution
from prx.live.session import Session

DATA = Path("/work/shared/data/dev/gsm8k_two_model_responses_dev.jsonl")
SURE = "The price is 3 * 4 = 12, so the answer is 12."
UNSURE = "I am not sure, maybe it"


def started(threshold: float = 0.7) -> tuple[Session, list[Record]]:
    records: list[Record] = []
    serving = Serving(strategy=Strategy(automix_threshold=threshold))
    return Evolution(lambda _: serving, records.append).session("r"), records


def asked(session: Session, answers: dict[str, str]) -> tuple[str, list[str]]:
    models: list[str] = []

    def ask(model: str) -> str:
        models.append(model)
        with session.call(model=model, messages="How much?") as call:
            call.reply(text=answers[model])
        return answers[model]

    answer = session.automix(ask, cheap="cheap", premium="premium", question="How much?")
    return answer, models


def test_a_sure_cheap_answer_is_kept_and_an_unsure_one_is_asked_again_once() -> None:
    session, _ = started()
    assert asked(session, {"cheap": SURE, "premium": "x"}) == (SURE, ["cheap"])
    session, _ = started()
    assert asked(session, {"cheap": UNSURE, "premium": UNSURE}) == (UNSURE, ["cheap", "premium"])
    assert session.escalate(UNSURE, to="premium") is None
    assert session.escalate(UNSURE, to="third") is None


def test_an_escalation_is_recorded_with_its_confidence_and_verifier() -> None:
    session, records = started()
    asked(session, {"cheap": UNSURE, "premium": SURE})
    first, second = (r for r in records if isinstance(r, Interaction))
    assert first.routing is not None
    assert not first.routing.escalated
    assert second.routing is not None
    assert (second.routing.chosen, second.routing.escalated) == ("premium", True)
    assert second.routing.verifier == VERIFIER
    assert second.routing.confidence == confidence("How much?", UNSURE)


def test_a_failing_or_empty_premium_answer_keeps_the_cheap_one_and_a_failing_cheap_call_is_the_apps() -> None:
    session, _ = started()

    def ask(model: str) -> str:
        if model == "premium":
            raise RuntimeError("down")
        return UNSURE

    assert session.automix(ask, cheap="cheap", premium="premium") == UNSURE
    session, _ = started()
    assert asked(session, {"cheap": UNSURE, "premium": " "})[0] == UNSURE
    session, _ = started()

    def broken(_model: str) -> str:
        raise RuntimeError("cheap is down")

    with pytest.raises(RuntimeError, match="cheap is down"):
        session.automix(broken, cheap="cheap", premium="premium")


def test_at_threshold_zero_nothing_escalates_and_at_one_everything_does() -> None:
    session, _ = started(0.0)
    assert asked(session, {"cheap": "", "premium": SURE})[1] == ["cheap"]
    session, _ = started(1.0)
    assert asked(session, {"cheap": SURE, "premium": SURE})[1] == ["cheap", "premium"]


@given(st.text(), st.text())
def test_confidence_is_a_probability_of_any_two_texts(question: str, answer: str) -> None:
    assert 0.0 <= confidence(question, answer) <= 1.0


def test_no_answer_is_never_trusted_and_an_admission_lowers_trust() -> None:
    assert confidence("q", "  ") == 0.0
    assert confidence("q", f"I think {SURE}") < confidence("q", f"I wrote {SURE}")


@pytest.mark.skipif(not DATA.exists(), reason="the shared data are not on this machine")
def test_on_answers_that_the_fit_never_saw_confidence_ranks_is_calibrated_and_beats_chance() -> None:
    rows = [json.loads(line) for line in DATA.read_text().splitlines()][1::2]
    scored = [(confidence(r["prompt"], r["weak"]["response"]), r) for r in rows]
    right = [p for p, r in scored if r["weak"]["correct"]]
    wrong = [p for p, r in scored if not r["weak"]["correct"]]
    auc = statistics.fmean((a > b) + 0.5 * (a == b) for a in right for b in wrong)
    assert auc > 0.62
    gap = abs(statistics.fmean(p for p, _ in scored) - len(right) / len(scored))
    assert gap < 0.05
    ranked = [r for _, r in sorted(scored, key=lambda pair: pair[0])]
    cut = round(0.3 * len(ranked))
    weak = statistics.fmean(r["weak"]["correct"] for r in rows)
    strong = statistics.fmean(r["strong"]["correct"] for r in rows)
    mixed = [r["strong" if i < cut else "weak"]["correct"] for i, r in enumerate(ranked)]
    at_random = 0.3 * strong + 0.7 * weak
    assert statistics.fmean(mixed) > at_random + 0.02


def in_trial(treated: Strategy) -> tuple[Evolution, list[Record]]:
    records: list[Record] = []
    experiment = ServedExperiment(
        experiment_id="e",
        layer=Layer.STRATEGY,
        ramp=1.0,
        traffic_split=1.0,
        ramp_salt="a",
        variant_salt="b",
        strategy=treated,
    )
    serving = Serving(strategy=Strategy(default_models={"faq": "large"}), experiments=(experiment,))
    return Evolution(lambda _: serving, records.append), records


def test_a_session_enters_a_strategy_experiment_only_where_the_two_strategies_differ() -> None:
    evolution, records = in_trial(Strategy(default_models={"faq": "small"}))
    assert evolution.session(session_id="s1").route("other", default="large") == "large"
    assert not [r for r in records if isinstance(r, Assignment)]
    assert evolution.session(session_id="s2").route("faq", default="large") == "small"
    (assigned,) = (r for r in records if isinstance(r, Assignment))
    (exposed,) = (r for r in records if isinstance(r, Exposure))
    assert (assigned.session_id, assigned.variant) == ("s2", TREATMENT)
    assert exposed.served == TREATMENT


def test_limits_follow_the_arm_of_the_session() -> None:
    evolution, records = in_trial(Strategy(default_models={"faq": "large"}, timeouts={"find": 2.0}))
    session = evolution.session(session_id="s")
    assert session.timeout("other", default=9.0) == 9.0
    assert not [r for r in records if isinstance(r, Assignment)]
    assert session.timeout("find", default=9.0) == 2.0
    assert session.tools(["find"]) == ["find"]
    assert len([r for r in records if isinstance(r, Exposure)]) == 1
