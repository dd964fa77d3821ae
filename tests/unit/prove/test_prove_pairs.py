"""Recorded inputs run again: rebuilding, recorded tools, slices, and what replay and shadow conclude."""

import random
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given as cases
from hypothesis import strategies as st
from prove_world import BASE, NOW, Agent, recorded

from prx.domain.answers import NotEnoughData
from prx.domain.codec import decode, encode
from prx.domain.errors import ModelUnavailable
from prx.domain.records import Feedback, Message, ToolCall, Trace
from prx.live.prompts import render
from prx.models.fakes import ScriptedChat
from prx.models.meter import BudgetSpent
from prx.models.port import ChatReply
from prx.prove import (
    GoldenCase,
    PairState,
    PromptSwap,
    ReplayRules,
    RunRules,
    ShadowRules,
    Task,
    checker_scorer,
    find_checker,
    golden,
    overall,
    replay_slice,
    replay_verdict,
    shadow_slice,
    shadow_verdict,
    tasks_from,
)
from prx.prove.pairs import PairNumbers, Sample, collect_pairs
from prx.prove.rebuild import NotReplayable, Rebuilt, rebuild
from prx.prove.running import Diverged, Ran, run
from prx.prove.tasks import conversation
from prx.prove.toolbook import canonical

CANDIDATE = BASE + "If two labels fit, choose the narrower one.\n"
SWAP = PromptSwap("triage", BASE, CANDIDATE)
EXACT = checker_scorer(find_checker("exact_label"))
START = PairState(started_at=NOW)


@cache
def tasks(count: int, answer: Callable[[int], str] = lambda n: f"label_{n}") -> tuple[Task, ...]:
    """Tasks whose truth is `label_N`, answered in production by `answer`."""
    traces = (
        recorded(n, BASE, f"message {n}", answer(n), expected=f"label_{n}", at=NOW + timedelta(minutes=n))
        for n in range(count)
    )
    return tuple(tasks_from(traces))


def by_chance(seed: int, stable: float, candidate: float) -> Callable[[int, bool], bool]:
    """Right at these rates, whatever the message."""
    rng = random.Random(seed)
    return lambda _, new: rng.random() < (candidate if new else stable)


def agent(right: Callable[[int, bool], bool]) -> Agent:
    """Answers message n rightly where `right(n, with the candidate prompt)` says so."""

    def answer(system: str, user: str) -> str:
        n = int(user.rsplit(maxsplit=1)[-1])
        return f"label_{n}" if right(n, "narrower" in system) else "wrong"

    return Agent(answer)


# rebuilding


def test_the_rendered_prompt_is_replaced_and_nothing_else() -> None:
    (trace,) = [recorded(1, BASE, "where is my card", "x")]
    request = rebuild(trace.interactions[0], SWAP)
    assert isinstance(request, Rebuilt)
    assert request.stable == trace.interactions[0].messages
    assert request.candidate[0].content == render(CANDIDATE, {"agent_name": "Ada"})
    assert request.candidate[1:] == trace.interactions[0].messages[1:]


def test_text_around_the_prompt_in_its_message_stays() -> None:
    wrapped = Message(role="system", content=f"Today is Monday.\n{render(BASE, {'agent_name': 'Ada'})}\nBye.")
    call = recorded(1, BASE, "q", "x", messages=(wrapped, Message(role="user", content="q"))).interactions[0]
    request = rebuild(call, SWAP)
    assert isinstance(request, Rebuilt)
    assert request.candidate[0].content.startswith("Today is Monday.\nYou are the support")
    assert request.candidate[0].content.endswith("narrower one.\n\nBye.")


def test_a_call_served_with_an_earlier_template_is_rebuilt_when_that_template_is_known() -> None:
    earlier = "An old prompt for {agent_name}.\n"
    call = recorded(1, earlier, "q", "x").interactions[0]
    assert isinstance(rebuild(call, SWAP), NotReplayable)
    request = rebuild(call, swap_with(earlier, call.prompts["triage"]))
    assert isinstance(request, Rebuilt)
    assert request.stable[0].content.startswith("You are the support assistant")


def swap_with(earlier: str, digest: str) -> PromptSwap:
    return PromptSwap("triage", BASE, CANDIDATE, {digest: earlier})


@pytest.mark.parametrize(
    "fields",
    [
        {"prompts": {}},
        {"prompts": {"triage": "sha256:unknown"}},
        {"prompt_values": {}},
        {"messages": (Message(role="user", content="q"),)},
        {"messages": (Message(role="system", content=(render(BASE, {"agent_name": "Ada"}) * 2)),)},
        {"prompt_values": {"triage": {"agent_name": "Bob"}}},
    ],
    ids=["not used", "unknown template", "no values", "not in the request", "twice", "other values"],
)
def test_what_cannot_be_rebuilt_is_said_so_and_never_guessed(fields: dict[str, Any]) -> None:
    assert isinstance(rebuild(recorded(1, BASE, "q", "x", **fields).interactions[0], SWAP), NotReplayable)


# recorded tools


def with_tools() -> Trace:
    """Two calls of one session: the first asks for a tool, the second answers with its result."""
    first = recorded(1, BASE, "message 1", "").interactions[0]
    call = ToolCall(name="find", call_id="c1", arguments='{"id": 7, "kind": "card"}')
    result = Message(role="tool", content="card 7 was sent", tool_call_id="c1")
    first = msgspec.structs.replace(first, record_id="a", response=None, tool_calls=(call,))
    second = msgspec.structs.replace(
        first,
        record_id="b",
        response="sent",
        tool_calls=(),
        messages=(*first.messages, Message(role="assistant", tool_calls=(call,)), result),
    )
    return Trace(start=recorded(1, BASE, "", "").start, interactions=(first, second))


def asks(name: str, arguments: str) -> ChatReply:
    return ChatReply(text="", model="m", tool_calls=(ToolCall(name=name, call_id="n1", arguments=arguments),))


def test_a_tool_call_is_served_from_the_record_whatever_the_order_of_its_arguments() -> None:
    (task,) = tasks_from([with_tools()])
    model = ScriptedChat([asks("find", '{"kind":"card","id":7}'), "it was sent"])
    ran = run(task, task.interaction.messages[:2], model, RunRules())
    assert isinstance(ran, Ran)
    assert ran.text == "it was sent"
    sent = model.requests[1].messages
    assert [m.role for m in sent] == ["system", "user", "assistant", "tool"]
    assert (sent[3].content, sent[3].tool_call_id) == ("card 7 was sent", "n1")
    assert sent[2].tool_calls[0].call_id == "n1"


@pytest.mark.parametrize(
    ("name", "arguments"), [("find", '{"id": 8}'), ("delete", '{"id": 7, "kind": "card"}')]
)
def test_a_tool_call_that_was_never_recorded_diverges(name: str, arguments: str) -> None:
    (task,) = tasks_from([with_tools()])
    ran = run(task, task.interaction.messages[:2], ScriptedChat([asks(name, arguments)]), RunRules())
    assert isinstance(ran, Diverged)


def test_endless_tool_calls_diverge_after_the_allowed_rounds() -> None:
    (task,) = tasks_from([with_tools()])
    model = ScriptedChat(lambda _: asks("find", '{"kind":"card","id":7}'))
    assert isinstance(run(task, task.interaction.messages[:2], model, RunRules(max_rounds=3)), Diverged)
    assert len(model.requests) == 3


@cases(st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4), max_size=4))
def test_equal_arguments_have_one_form(arguments: dict[str, Any]) -> None:
    import json

    backwards = dict(reversed(arguments.items()))
    assert canonical(json.dumps(arguments)) == canonical(json.dumps(backwards, indent=2))
    assert canonical(None) == canonical("") == canonical("{}")


# what is known of the right answer


def feedback(name: str, value: float | str, *, kind: str, target: str, minute: int = 0) -> Feedback:
    return Feedback(
        record_id=f"f{minute}{name}",
        at=NOW + timedelta(minutes=minute),
        target_kind=kind,
        target=target,
        name=name,
        value=value,
    )


@pytest.mark.parametrize(
    ("notes", "expected", "success"),
    [
        ((), "from_extra", None),
        ((feedback("correct_label", "a", kind="interaction", target="r00001"),), "a", None),
        (
            (
                feedback("correct_label", "new", kind="session", target="s00001", minute=5),
                feedback("expected", "old", kind="interaction", target="r00001", minute=1),
            ),
            "new",
            None,
        ),
        ((feedback("correct_label", "b", kind="ref", target="order-1"),), "b", None),
        ((feedback("correct_label", "other", kind="interaction", target="r9"),), "from_extra", None),
        ((feedback("thumb", 1.0, kind="interaction", target="r00001"),), "from_extra", True),
        ((feedback("correction", 1.0, kind="interaction", target="r00001"),), "from_extra", False),
        (
            (
                feedback("thumb", 1.0, kind="interaction", target="r00001"),
                feedback("task_outcome", 0.0, kind="session", target="s00001"),
            ),
            "from_extra",
            False,
        ),
    ],
)
def test_truth_and_success_are_what_feedback_says_last(
    notes: tuple[Feedback, ...], expected: str, success: bool | None
) -> None:
    trace = recorded(1, BASE, "q", "x", expected="from_extra", ref="order-1")
    (task,) = tasks_from([msgspec.structs.replace(trace, feedback=notes)])
    assert (task.expected, task.success) == (expected, success)


def test_the_judge_never_sees_the_agents_own_prompt() -> None:
    messages = recorded(1, BASE, "where is my card", "x").interactions[0].messages
    assert conversation(messages) == "where is my card"
    assert "support assistant" not in conversation((*messages, Message(role="assistant", content="hm")))


# slices


def test_work_in_slices_gives_what_one_run_gives_and_repeats_nothing() -> None:
    def right(n: int, new: bool) -> bool:
        return n % 4 != 0 or new

    whole = collect_pairs(START, tasks(40), SWAP, agent(right), RunRules(), scorer=EXACT, limit=100)
    worker, state = agent(right), START
    for _ in range(6):
        state = decode(encode(state), PairState)  # as if the process had restarted
        state = collect_pairs(state, tasks(40), SWAP, worker, RunRules(), scorer=EXACT, limit=7).state
    assert state == whole.state
    assert len(worker.requests) == 80
    assert len(whole.answered) == 40


@cases(st.lists(st.sampled_from("abc"), max_size=12), st.integers(0, 100))
def test_states_merge_in_any_order_and_twice(owners: list[str], seed: int) -> None:
    rng = random.Random(seed)

    def part(owner: str) -> PairState:
        mine = [n for n, name in enumerate(owners) if name == owner or rng.random() < 0.3]
        sample = Sample(quality=rng.random())
        numbers = PairNumbers(
            recorded=sample, stable=sample, candidate=sample, stable_differs=False, candidate_differs=True
        )
        return PairState(
            started_at=NOW + timedelta(hours=rng.randrange(5)),
            pairs={f"t{n}": numbers for n in mine},
            skipped={f"t{n}": rng.choice(["diverged", "not_replayable"]) for n in range(3) if n not in mine},
            errors={f"t{n}": rng.randrange(3) for n in mine},
        )

    a, b, c = part("a"), part("b"), part("c")
    assert a.merged(b) == b.merged(a)
    assert a.merged(b).merged(c) == a.merged(b.merged(c))
    assert a.merged(a) == a


def test_a_spent_budget_or_load_stops_a_slice_and_keeps_what_is_done() -> None:
    lines: list[Any] = ["label_0", "label_0", BudgetSpent("the month's budget is used up")]
    cut = collect_pairs(START, tasks(5), SWAP, ScriptedChat(lines), RunRules(), scorer=EXACT, limit=5)
    assert cut.stopped == "the month's budget is used up"
    assert list(cut.state.pairs) == ["r00000"]
    calm = iter([True, True, False])
    shed = collect_pairs(
        START, tasks(5), SWAP, agent(lambda *_: True), RunRules(), limit=5, may_go_on=lambda: next(calm)
    )
    assert shed.stopped == "shed under load"
    assert len(shed.state.pairs) == 2


def test_a_model_that_is_down_stops_the_slice_and_a_single_bad_input_is_given_up_in_the_end() -> None:
    down = ScriptedChat(lambda _: ModelUnavailable("endpoint is down"))
    cut = collect_pairs(START, tasks(9), SWAP, down, RunRules(), limit=9)
    assert cut.stopped == "endpoint is down"
    assert len(down.requests) == 3

    def poisoned(request: Any) -> Any:
        return ModelUnavailable("400") if request.messages[1].content == "message 0" else "label"

    state = START
    for _ in range(4):
        state = collect_pairs(state, tasks(3), SWAP, ScriptedChat(poisoned), RunRules(), limit=9).state
    assert state.skipped == {"r00000": "model_error"}
    assert len(state.pairs) == 2


# replay


def replayed(all_tasks: Iterable[Task], model: Agent, rules: ReplayRules | None = None) -> Any:
    rules = rules or ReplayRules()
    done = replay_slice(START, all_tasks, SWAP, model, rules, scorer=EXACT)
    return replay_verdict(done.state, rules, NOW, exhausted=True)


def test_an_unchanged_behaviour_passes_replay() -> None:
    step = replayed(tasks(120), agent(lambda *_: True))
    assert (step.answer, step.evidence) == ("pass", "paired_offline")
    assert step.numbers["quality"]["n"] == 120
    assert step.numbers["quality"]["mean"] == 0.0


def test_lost_successes_fail_replay_with_their_code() -> None:
    step = replayed(tasks(100), agent(lambda n, new: not new or n % 5 != 0))
    assert (step.answer, step.code) == ("fail", "replay_regressed")
    assert step.numbers["quality"]["mean"] == pytest.approx(-0.2)
    assert step.numbers["quality"]["high"] < 0


def test_only_recorded_successes_are_replayed() -> None:
    recorded_wrong = tasks(120, lambda n: "wrong" if n % 2 else f"label_{n}")
    model = agent(lambda *_: True)
    step = replayed(recorded_wrong, model)
    assert step.numbers["cases"] == 60
    assert {int(r.messages[1].content.split()[-1]) % 2 for r in model.requests} == {0}


def test_a_model_that_varies_does_not_make_an_equal_prompt_look_worse() -> None:
    """Recorded successes alone would show a loss of 20 points here: the model is right 4 times of 5."""
    failures = 0
    for seed in range(20):
        step = replayed(tasks(150), agent(by_chance(seed, 0.8, 0.8)))
        failures += step.answer == "fail"
    assert failures <= 2


def test_too_few_or_unrebuildable_cases_are_not_enough_data() -> None:
    step = replayed(tasks(49), agent(lambda *_: True))
    assert step.answer == "not_enough_data"
    foreign = [recorded(n, "Another prompt.", "m", "label", expected="label") for n in range(90)]
    step = replayed(list(tasks_from(foreign)), agent(lambda *_: True))
    assert (step.answer, step.numbers["not_replayable"]) == ("not_enough_data", 90)
    assert isinstance(overall([step]), NotEnoughData)


def test_replay_that_mostly_diverges_leaves_the_answer_to_the_shadow_run() -> None:
    def line(request: Any) -> Any:
        new = "narrower" in request.messages[0].content
        n = int(request.messages[1].content.split()[-1])
        return asks("unheard_of", "{}") if new and n % 2 else f"label_{n}"

    step = replayed(tasks(120), ScriptedChat(line))
    assert step.answer == "not_enough_data"
    assert step.numbers["diverged"] == 60


def test_a_model_that_keeps_failing_is_an_error() -> None:
    def line(request: Any) -> Any:
        n = int(request.messages[1].content.split()[-1])
        return ModelUnavailable("400") if n % 2 else f"label_{n}"

    state, rules = START, ReplayRules()
    for _ in range(3):
        state = replay_slice(state, tasks(120), SWAP, ScriptedChat(line), rules, scorer=EXACT).state
    step = replay_verdict(state, rules, NOW, exhausted=True)
    assert (step.answer, step.numbers["model_errors"]) == ("error", 60)
    healthy = replay_slice(state, tasks(120), SWAP, agent(lambda *_: True), rules, scorer=EXACT).state
    assert replay_verdict(healthy, rules, NOW, exhausted=True).answer == "pass"


# shadow

DAY = NOW + timedelta(hours=24)


def shadowed(
    count: int, model: Any, *, rules: ShadowRules | None = None, now: Any = DAY, scored: bool = True
) -> Any:
    rules = rules or ShadowRules()
    scorer = EXACT if scored else None
    done = shadow_slice(START, tasks(count), SWAP, model, rules, scorer=scorer, limit=count)
    return shadow_verdict(done.state, rules, now, scored=scored, exhausted=count >= rules.max_pairs)


def test_a_better_candidate_passes_its_shadow_run_with_all_differences_shown() -> None:
    step = shadowed(100, agent(lambda n, new: new or n % 5 != 0))
    assert step.answer == "pass"
    assert step.numbers["quality"]["mean"] == pytest.approx(0.2)
    assert set(step.numbers) >= {"latency_ms", "cost_usd", "tokens", "noise", "hours", "pairs"}
    assert step.numbers["noise"]["stable_changed"] == pytest.approx(0.2)
    assert step.numbers["noise"]["candidate_changed"] == 0.0
    assert step.numbers["cost_usd"]["mean"] > 0


def test_neither_hours_nor_pairs_alone_are_enough() -> None:
    good = agent(lambda *_: True)
    assert shadowed(100, good, now=NOW + timedelta(hours=23)).answer == "not_enough_data"
    assert shadowed(99, good).answer == "not_enough_data"
    assert shadowed(100, good).answer == "pass"


def test_inputs_from_before_the_start_do_not_count() -> None:
    late = PairState(started_at=NOW + timedelta(minutes=30))
    done = shadow_slice(late, tasks(50), SWAP, agent(lambda *_: True), ShadowRules(), limit=99)
    assert min(done.state.pairs) == "r00030"


def test_a_loss_of_ten_points_is_refused_in_nine_runs_of_ten_and_an_equal_prompt_in_one_of_twenty() -> None:
    rules = ShadowRules()
    worse = equal = 0
    for seed in range(12):
        worse += shadowed(400, agent(by_chance(seed, 0.85, 0.75)), rules=rules).answer == "fail"
        equal += shadowed(400, agent(by_chance(seed, 0.85, 0.85)), rules=rules).answer == "fail"
    assert worse >= 11
    assert equal <= 1


def test_a_candidate_much_dearer_or_slower_is_refused_whatever_its_quality() -> None:
    def line(latency_ms: float, cost_usd: float) -> Callable[[Any], ChatReply]:
        def answer(request: Any) -> ChatReply:
            new = "narrower" in request.messages[0].content
            return ChatReply(
                text=f"label_{request.messages[1].content.split()[-1]}",
                model="m",
                latency_ms=latency_ms if new else 100.0,
                cost_usd=cost_usd if new else 0.01,
            )

        return answer

    for model, code in ((line(200, 0.01), "shadow_slower"), (line(100, 0.02), "shadow_dearer")):
        step = shadowed(100, ScriptedChat(model))
        assert (step.answer, step.code) == ("fail", code)
    assert shadowed(100, ScriptedChat(line(140, 0.014))).answer == "pass"


def test_without_a_scorer_quality_is_left_to_the_judge_and_said_so() -> None:
    step = shadowed(100, agent(lambda *_: True), scored=False)
    assert step.answer == "pass"
    assert "the judge decides" in step.why
    assert "quality" not in step.numbers


def test_a_candidate_that_calls_unrecorded_tools_too_often_is_refused_and_nothing_acts() -> None:
    def line(request: Any) -> Any:
        n = int(request.messages[1].content.split()[-1])
        wild = "narrower" in request.messages[0].content and n % 3 == 0
        return asks("wire_money", '{"amount": 900}') if wild else f"label_{n}"

    step = shadowed(150, ScriptedChat(line))
    assert (step.answer, step.code) == ("fail", "shadow_diverged")


# golden cases

GOLDEN = [GoldenCase(f"g{n}", f"message {n}", f"label_{n}", {"agent_name": "Ada"}) for n in range(10)]


def golden_step(model: Any) -> Any:
    return golden(GOLDEN, SWAP, model, find_checker("exact_label"), rules=RunRules(), now=NOW)


def test_golden_cases_may_not_be_lost_one_by_one() -> None:
    kept = golden_step(agent(lambda n, new: n != 3 or new))
    assert (kept.answer, kept.numbers["kept"]) == ("pass", 10)
    traded = golden_step(agent(lambda n, new: n != (4 if new else 3)))
    assert (traded.answer, traded.code) == ("fail", "golden_regressed")
    assert traded.numbers["lost"] == ["g4"]


@pytest.mark.parametrize(
    ("candidate", "stable", "lost"),
    [
        ([False, True, True], [True, True, True], []),
        ([False, True, False], [True, True, False], ["g5"]),
        ([False, False, False], [True, False, False], []),
        ([False, False, False], [True, False, True], ["g5"]),
    ],
)
def test_the_majority_of_three_tries_decides_over_a_missed_case(
    candidate: list[bool], stable: list[bool], lost: list[str]
) -> None:
    tries = {True: iter(candidate), False: iter(stable)}
    step = golden_step(agent(lambda n, new: n != 5 or next(tries[new])))
    assert step.numbers["lost"] == lost
    assert step.answer == ("fail" if lost else "pass")


def test_golden_cases_without_a_model_are_an_error_and_without_truth_no_pass() -> None:
    down = golden_step(ScriptedChat(lambda _: ModelUnavailable("down")))
    assert down.answer == "error"
    vague = [GoldenCase("g", "m", "(", {"agent_name": "Ada"})]
    step = golden(vague, SWAP, ScriptedChat(["x"]), find_checker("regex"), rules=RunRules(), now=NOW)
    assert step.answer == "not_enough_data"
