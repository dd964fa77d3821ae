"""The judge with simulated judges of stated quality: who passes, who does not, and who may not judge."""

import json
import random
from collections import Counter
from typing import Any

import pytest
from prove_world import NOW, SimulatedJudge

from prx.domain.codec import decode, encode
from prx.domain.errors import InvalidInput, ModelUnavailable
from prx.models.fakes import ScriptedChat
from prx.models.meter import BudgetSpent
from prx.prove import (
    Calibration,
    CheckerJudge,
    JudgeRules,
    JudgeState,
    ModelJudge,
    empty_state,
    find_checker,
    judge,
    judge_slice,
    judge_verdict,
    references,
    refused,
)
from prx.prove.asking import Asker, JudgeTask, Preferred, Rated, rubric, rubric_hash
from prx.prove.controls import KnownBad
from prx.prove.judgements import Judgement, bare_name
from prx.prove.port import Truth, Unscored

RULES = JudgeRules()
MODES = ("score", "preference")


def quality(_: str, answer: str) -> float:
    """Right answers 0.9, wrong ones 0.1, anything else (controls, attacks) 0."""
    return {"right": 0.9, "wrong": 0.1}.get(answer.split(":", maxsplit=1)[0], 0.0)


def tasks(seed: int, count: int = 250, *, stable: float, candidate: float) -> list[JudgeTask]:
    """Tasks answered rightly at these rates."""
    rng = random.Random(seed)

    def answer(rate: float, n: int) -> str:
        return f"{'right' if rng.random() < rate else 'wrong'}: text {n}"

    return [
        JudgeTask(f"t{n:04d}", f"question {n}", answer(stable, n), answer(candidate, n)) for n in range(count)
    ]


def judged(all_tasks: list[JudgeTask], model: Any, mode: str, *, seed: int = 0, **options: Any) -> Any:
    by = ModelJudge(model, mode, frozenset({"agent-model"}))
    return judge(all_tasks, by, options.pop("rules", RULES), rng=random.Random(seed), now=NOW, **options).step


def answers_of(mode: str, *, stable: float, candidate: float, runs: int = 20, **errors: Any) -> Counter[str]:
    return Counter(
        judged(
            tasks(seed, stable=stable, candidate=candidate),
            SimulatedJudge(quality, seed=seed, **errors),
            mode,
        ).answer
        for seed in range(runs)
    )


# who passes


@pytest.mark.parametrize("mode", MODES)
def test_a_truly_better_candidate_passes_a_judge_that_errs(mode: str) -> None:
    assert answers_of(mode, stable=0.75, candidate=0.90, noise=0.15)["pass"] >= 19


@pytest.mark.parametrize("mode", MODES)
def test_a_truly_worse_candidate_never_passes_a_judge_that_errs(mode: str) -> None:
    answers = answers_of(mode, stable=0.90, candidate=0.70, noise=0.15)
    assert answers["pass"] == 0
    assert answers["fail"] >= 18


def test_a_candidate_as_poor_as_production_is_rejected_by_the_floor_in_score_mode() -> None:
    answers = answers_of("score", stable=0.5, candidate=0.5, runs=10, noise=0.1)
    assert answers["fail"] == 10
    step = judged(tasks(1, stable=0.5, candidate=0.5), SimulatedJudge(quality, seed=1), "score")
    assert step.code == "judge_score_low"
    assert step.numbers["score"]["low"] < 0.6


def test_preference_alone_is_enough_where_quality_may_stay_equal() -> None:
    same = [JudgeTask(t.task_id, t.request, t.stable, t.stable) for t in tasks(2, stable=0.5, candidate=0.5)]
    step = judged(same, SimulatedJudge(quality, seed=2), "preference")
    assert step.answer == "pass"
    assert step.numbers["win_rate"] == 0.5
    assert "score" not in step.numbers


def test_a_clear_case_stops_at_the_first_look_and_an_unclear_one_grows_to_the_last() -> None:
    clear = judged(tasks(3, stable=0.6, candidate=1.0), SimulatedJudge(quality, seed=3), "score")
    assert (clear.answer, clear.numbers["tasks"], clear.numbers["confidence"]) == ("pass", 50, 0.99)
    even = [
        JudgeTask(
            f"t{n:04d}",
            f"q{n}",
            f"{'wrong' if n % 10 == 1 else 'right'}: a",
            f"{'wrong' if n % 10 == 2 else 'right'}: b",
        )
        for n in range(250)
    ]
    unclear = judged(even, SimulatedJudge(quality, seed=4), "score")
    assert (unclear.numbers["tasks"], unclear.numbers["final"]) == (200, True)


def test_every_number_of_the_decision_is_in_the_step() -> None:
    step = judged(tasks(5, stable=0.6, candidate=1.0), SimulatedJudge(quality, seed=5), "score")
    numbers = step.numbers
    assert (numbers["judge"], numbers["mode"], numbers["rubric"]) == (
        "judge-model",
        "score",
        rubric_hash("score"),
    )
    assert numbers["controls"] == {"lost": 30, "tied": 0, "passed": 0, "unread": 0}
    assert step.evidence == "paired_offline"
    right = sum(t.candidate.startswith("right") for t in tasks(5, stable=0.6, candidate=1.0)[:50])
    assert right == 50
    assert numbers["score"]["mean"] == pytest.approx(0.9, abs=0.05)


def synthetic(rng: random.Random, size: int, stable: float, candidate: float) -> JudgeState:
    made = {
        f"t{n:04d}": Judgement(stable=float(rng.random() < stable), candidate=float(rng.random() < candidate))
        for n in range(size)
    }
    return JudgeState(judge="j", mode="score", rubric="r", judgements=made)


def first_answer(rng: random.Random, stable: float, candidate: float, rules: JudgeRules) -> str:
    """What the growing sample says first, looks at 50, 100 and 200."""
    whole = synthetic(rng, 200, stable, candidate)
    for size in (50, 100, 200):
        part = JudgeState(
            judge="j", mode="score", rubric="r", judgements=dict(list(whole.judgements.items())[:size])
        )
        step = judge_verdict(part, rules, NOW, exhausted=False)
        if step.answer != "not_enough_data":
            return step.answer
    return step.answer


def test_looking_three_times_keeps_the_errors_near_what_one_look_would_have() -> None:
    runs = 600
    rng = random.Random(21)
    at_margin = Counter(first_answer(rng, 0.90, 0.85, RULES) for _ in range(runs))
    assert at_margin["pass"] / runs <= 0.08  # nominal 0.05
    at_floor = Counter(first_answer(rng, 0.3, 0.6, RULES) for _ in range(runs))
    assert at_floor["pass"] / runs <= 0.13  # nominal 0.10
    equal = Counter(first_answer(rng, 0.9, 0.9, RULES) for _ in range(runs))
    assert equal["fail"] / runs <= 0.09


# judges that may not judge


@pytest.mark.parametrize("mode", MODES)
def test_a_judge_that_likes_everything_is_void(mode: str) -> None:
    step = judged(tasks(6, stable=0.5, candidate=0.5), SimulatedJudge(lambda *_: 1.0, seed=6), mode)
    assert step.answer == "error"
    assert "void" in step.why


def test_a_judge_that_chooses_the_first_answer_is_caught_by_the_swap() -> None:
    biased = SimulatedJudge(quality, seed=7, bias=5.0)
    step = judged(tasks(7, stable=0.9, candidate=0.2), biased, "preference")
    assert step.answer == "error"
    only_on_tasks = [
        Judgement(stable=0.5, candidate=0.5, place="first" if n % 10 < 7 else "") for n in range(60)
    ]
    state = JudgeState(
        judge="j",
        mode="preference",
        rubric="r",
        judgements={f"t{n:03d}": j for n, j in enumerate(only_on_tasks)},
    )
    step = judge_verdict(state, RULES, NOW, exhausted=True)
    assert step.answer == "error"
    assert "follows the place" in step.why


def test_a_mild_liking_for_the_first_place_neither_passes_the_worse_nor_stops_the_better() -> None:
    worse = answers_of("preference", stable=0.9, candidate=0.7, runs=10, noise=0.1, bias=0.3)
    assert worse["pass"] == 0
    better = answers_of("preference", stable=0.7, candidate=0.95, runs=10, noise=0.1, bias=0.3)
    assert better["pass"] == 10


def test_a_judge_that_is_swayed_by_praise_is_void() -> None:
    def swayed(request: str, answer: str) -> float:
        return 0.95 if "question" in answer or "request" in answer else quality(request, answer)

    step = judged(tasks(8, stable=0.8, candidate=0.9), SimulatedJudge(swayed, seed=8), "score")
    assert step.answer == "error"
    assert "echo" in step.why or "praise" in step.why


def test_one_void_batch_is_left_out_and_the_rest_decides() -> None:
    """The judge falls for one single control; its batch of ten does not count, nor does its judge fall."""
    echoes = [0]

    def once(request: str, answer: str) -> float:
        echoes[0] += answer == request
        return 0.9 if echoes[0] == 3 and answer == request else quality(request, answer)

    step = judged(tasks(17, stable=0.6, candidate=1.0), SimulatedJudge(once, seed=17), "score")
    assert step.answer == "pass"
    assert step.numbers["controls"]["passed"] == 1
    assert (step.numbers["void"], step.numbers["tasks"]) == (10, 50)


def test_a_judge_is_refused_its_own_answers_under_any_spelling_of_its_name() -> None:
    for name in ("gpt-x", "openai/GPT-x", "gpt-x-2026-01-31", "gpt-x:latest", "azure/gpt-x@20260131"):
        with pytest.raises(InvalidInput, match="also writes the answers") as caught:
            ModelJudge(ScriptedChat([], name=name), "score", frozenset({"gpt-x", "other"}))
    assert refused(caught.value, NOW).answer == "error"
    assert bare_name("gpt-x-mini") == "gpt-x-mini"
    with pytest.raises(InvalidInput, match="score or preference"):
        ModelJudge(ScriptedChat([]), "vote", frozenset())


def test_answers_that_people_called_bad_may_pass_as_often_as_the_calibration_allows() -> None:
    bad = [KnownBad(JudgeTask("k1", "question", "right: a", ""), "right: but people say it is bad")]
    options = {"known_bad": bad, "seed": 9}
    good = tasks(9, stable=0.6, candidate=1.0)
    step = judged(good, SimulatedJudge(quality, seed=9), "score", **options)
    assert step.answer == "error"
    assert "people called bad" in step.why
    lenient = Calibration(good=100, good_passed=95, bad=100, bad_failed=60)
    step = judged(good, SimulatedJudge(quality, seed=9), "score", calibration=lenient, **options)
    assert step.answer == "pass"
    assert step.numbers["calibration"]["specificity"] == 0.6
    assert set(step.numbers["corrected"]) == {"pass_rate", "corrected", "interval"}


# when the judge cannot be reached or read


def test_a_judge_that_is_down_is_an_error_and_the_work_done_is_kept() -> None:
    calls = [0]
    honest = SimulatedJudge(quality, seed=10)

    def line(request: Any) -> Any:
        calls[0] += 1
        return honest.complete(request) if calls[0] <= 70 else ModelUnavailable("judge is down")

    by = ModelJudge(ScriptedChat(line, name="judge-model"), "score", frozenset({"agent-model"}))
    cut = judge(tasks(10, stable=0.6, candidate=1.0), by, RULES, rng=random.Random(1), now=NOW)
    assert (cut.step.answer, cut.step.why) == ("error", "the judge did not answer: judge is down")
    assert 20 < len(cut.state.judgements) < 50
    again = ModelJudge(honest, "score", frozenset({"agent-model"}))
    rest = judge(
        tasks(10, stable=0.6, candidate=1.0), again, RULES, rng=random.Random(2), now=NOW, state=cut.state
    )
    assert rest.step.answer == "pass"
    assert len(rest.state.judgements) == 50


def test_a_spent_budget_is_not_enough_data() -> None:
    step = judged(
        tasks(11, stable=0.6, candidate=1.0),
        ScriptedChat([BudgetSpent("spent")], name="judge-model"),
        "score",
    )
    assert (step.answer, step.why) == ("not_enough_data", "spent")


@pytest.mark.parametrize("mode", MODES)
def test_replies_that_often_cannot_be_read_are_an_error(mode: str) -> None:
    broken = SimulatedJudge(quality, seed=12, broken=0.3)
    assert judged(tasks(12, stable=0.5, candidate=1.0), broken, mode).answer == "error"


def test_a_few_unreadable_replies_count_against_the_candidate_only_so_far() -> None:
    rare = SimulatedJudge(quality, seed=13, broken=0.02)
    step = judged(tasks(13, stable=0.6, candidate=1.0), rare, "score")
    assert step.answer == "pass"
    assert 0 < step.numbers["unread"] <= 5


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "4",
        "[]",
        "I rate it 4.",
        '{"id": "ID", "correct": 4, "complete": 4, "follows": 4, "clear": 4}',
        '{"id": "ID", "correct": 5, "complete": 4, "follows": 4, "clear": 4, "safe": true}',
        '{"id": "ID", "correct": -1, "complete": 4, "follows": 4, "clear": 4, "safe": true}',
        '{"id": "ID", "correct": 3.5, "complete": 4, "follows": 4, "clear": 4, "safe": true}',
        '{"id": "ID", "correct": "4", "complete": 4, "follows": 4, "clear": 4, "safe": true}',
        '{"id": "else", "correct": 4, "complete": 4, "follows": 4, "clear": 4, "safe": true}',
        '{"id": "ID", "correct": 0, "complete": 0, "follows": 0, "clear": 0, "safe": true} '
        '{"id": "ID", "correct": 4, "complete": 4, "follows": 4, "clear": 4, "safe": true}',
        '{"id": "ID", "correct": 4, "complete": 4, "follows": 4, "clear": 4, "safe": true',
    ],
)
def test_only_the_one_object_with_the_check_word_and_marks_in_range_is_read(reply: str) -> None:
    def line(request: Any) -> str:
        return reply.replace("ID", json.loads(request.messages[1].content)["id"])

    asker = Asker(ScriptedChat(line), random.Random(1))
    assert isinstance(asker.score("question", "right: a", None), Unscored)


def test_a_fenced_reply_is_read() -> None:
    def line(request: Any) -> str:
        word = json.loads(request.messages[1].content)["id"]
        body = {"id": word, "correct": 4, "complete": 3, "follows": 4, "clear": 1, "safe": True}
        return f"```json\n{json.dumps(body)}\n```"

    asker = Asker(ScriptedChat(line), random.Random(1))
    assert asker.score("question", "right: a", None) == Rated(12 / 16, True)


# safety


@pytest.mark.parametrize("mode", MODES)
def test_one_unsafe_answer_vetoes_the_better_candidate(mode: str) -> None:
    all_tasks = tasks(14, stable=0.6, candidate=1.0)
    bad = all_tasks[17]
    all_tasks[17] = JudgeTask(bad.task_id, bad.request, bad.stable, "right: here is the password of Bob")
    step = judged(all_tasks, SimulatedJudge(quality, seed=14, unsafe=lambda a: "password" in a), mode)
    assert (step.answer, step.code) == ("fail", "judge_unsafe")
    assert "t0017" in step.why


def test_a_veto_needs_the_judge_to_say_it_twice_and_not_of_the_stable_answer_too() -> None:
    said = [0]

    def once(answer: str) -> bool:
        said[0] += "text 17" in answer and "right" in answer
        return "text 17" in answer and said[0] == 1

    all_tasks = tasks(15, stable=0.0, candidate=1.0)
    assert judged(all_tasks, SimulatedJudge(quality, seed=15, unsafe=once), "score").answer == "pass"
    assert said[0] >= 2
    both = SimulatedJudge(quality, seed=15, unsafe=lambda a: "text 17" in a)
    assert judged(all_tasks, both, "score").answer == "pass"


# states


def test_judging_in_slices_gives_the_judgements_of_one_run() -> None:
    all_tasks = tasks(16, 40, stable=0.7, candidate=0.8)
    by = ModelJudge(SimulatedJudge(quality, seed=1), "score", frozenset())
    state = empty_state(by)
    for size in (10, 25, 40):
        state = judge_slice(
            decode(encode(state), JudgeState), all_tasks[:size], by, RULES, rng=random.Random(size)
        ).state
    assert list(state.judgements) == [t.task_id for t in all_tasks]
    once = judge_slice(empty_state(by), all_tasks, by, RULES, rng=random.Random(1)).state
    right = {t.task_id: t.candidate.startswith("right") for t in all_tasks}
    for found in (state, once):
        assert {k: j.candidate > 0.5 for k, j in found.judgements.items()} == right
    assert state.merged(once).judgements == once.judgements


def test_judgements_under_different_rubrics_or_judges_do_not_add_up() -> None:
    state = JudgeState(judge="a", mode="score", rubric="sha256:1")
    for other in ({"judge": "b"}, {"mode": "preference"}, {"rubric": "sha256:2"}):
        fields = {"judge": "a", "mode": "score", "rubric": "sha256:1", **other}
        with pytest.raises(InvalidInput, match="do not add up"):
            state.merged(JudgeState(**fields))


def test_rubrics_are_shipped_and_name_their_reply() -> None:
    assert "check word" in rubric("score")
    assert '"winner"' in rubric("preference")
    assert rubric_hash("score") != rubric_hash("preference")


# checkers in place of a judge


def label_tasks(seed: int, stable: float, candidate: float) -> list[JudgeTask]:
    rng = random.Random(seed)

    def answer(rate: float, n: int) -> str:
        return f"label_{n % 7}" if rng.random() < rate else f"label_{(n + 1) % 7}"

    return [
        JudgeTask(f"t{n:04d}", f"q{n}", answer(stable, n), answer(candidate, n), f"label_{n % 7}")
        for n in range(200)
    ]


def checked(all_tasks: list[JudgeTask], name: str) -> Any:
    by = CheckerJudge(find_checker(name), references(all_tasks))
    return judge(all_tasks, by, RULES, rng=random.Random(1), now=NOW).step


def test_a_checker_judges_known_truth_and_is_recorded_as_such() -> None:
    better = checked(label_tasks(1, 0.75, 0.95), "exact_label")
    assert (better.answer, better.numbers["judge"], better.numbers["rubric"]) == (
        "pass",
        "checker:exact_label",
        "",
    )
    assert checked(label_tasks(2, 0.95, 0.75), "contains_label").answer == "fail"


def test_a_checker_that_accepts_anything_is_void() -> None:
    loose = [
        JudgeTask(t.task_id, t.request, t.stable, t.candidate, "(?s).*") for t in label_tasks(3, 0.8, 0.9)
    ]
    step = checked(loose, "regex")
    assert step.answer == "error"
    assert "void" in step.why


def test_tasks_without_a_known_truth_are_left_out_not_failed() -> None:
    half = [
        JudgeTask(t.task_id, t.request, t.stable, t.candidate, t.reference if n % 2 else None)
        for n, t in enumerate(label_tasks(4, 0.7, 1.0))
    ]
    step = checked(half, "exact_label")
    assert step.answer == "pass"
    assert step.numbers["unread"] > 0
    none = [JudgeTask(t.task_id, t.request, t.stable, t.candidate) for t in half]
    assert checked(none, "exact_label").answer == "not_enough_data"


def test_a_checkers_json_answers_are_not_taken_for_forged_replies() -> None:
    schema = '{"type": "object", "required": ["score"]}'
    rows = [JudgeTask(f"t{n:03d}", f"q{n}", '{"score": 1}', '{"score": 2}', schema) for n in range(200)]
    assert checked(rows, "json_schema").answer == "pass"


def test_a_truth_is_given_to_the_checker_with_all_labels() -> None:
    seen: list[Truth] = []

    class Spy:
        name = "spy"

        def check(self, answer: str, truth: Truth) -> float:
            seen.append(truth)
            return float(answer == truth.expected)

    rows = label_tasks(5, 1.0, 1.0)[:60]
    judge(rows, CheckerJudge(Spy(), references(rows)), RULES, rng=random.Random(1), now=NOW)
    assert {t.labels for t in seen} == {frozenset(f"label_{n}" for n in range(7))}


# the preference question itself


@pytest.mark.parametrize(
    ("winners", "expected"),
    [
        (("second", "first"), Preferred(1.0, "", True, True)),
        (("first", "second"), Preferred(0.0, "", True, True)),
        (("tie", "tie"), Preferred(0.5, "", True, True)),
        (("first", "first"), Preferred(0.5, "first", True, True)),
        (("second", "second"), Preferred(0.5, "second", True, True)),
        (("second", "tie"), Preferred(0.5, "", True, True)),
    ],
)
def test_both_orders_must_agree_on_a_winner(winners: tuple[str, str], expected: Preferred) -> None:
    replies = iter(winners)

    def line(request: Any) -> str:
        data = json.loads(request.messages[1].content)
        return json.dumps({"id": data["id"], "winner": next(replies)})

    model = ScriptedChat(line)
    assert Asker(model, random.Random(1)).prefer("q", "stable text", "candidate text", None) == expected
    shown = [json.loads(r.messages[1].content) for r in model.requests]
    assert [(d["first"], d["second"]) for d in shown] == [
        ("stable text", "candidate text"),
        ("candidate text", "stable text"),
    ]


@pytest.mark.parametrize(
    ("size", "exhausted", "answer"), [(50, False, "not_enough_data"), (50, True, "fail")]
)
def test_a_floor_that_is_neither_reached_nor_out_of_reach_waits_until_the_last_look_and_then_fails(
    size: int, exhausted: bool, answer: str
) -> None:
    """Candidate right on 31 of 50, better than stable: mean 0.62, but its lower 90 % bound is below 0.6."""
    made = {f"t{n:03d}": Judgement(stable=float(n < 15), candidate=float(n < 31)) for n in range(size)}
    state = JudgeState(judge="j", mode="score", rubric="r", judgements=made)
    step = judge_verdict(state, RULES, NOW, exhausted=exhausted)
    assert (step.answer, step.code) == (answer, "judge_score_low" if answer == "fail" else None)
    assert step.numbers["score"]["low"] < 0.6 < step.numbers["score"]["high"]
