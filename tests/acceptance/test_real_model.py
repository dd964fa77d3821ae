"""A real small language model behind the engine's own endpoint client: nothing here is simulated.

Set PRX_TEST_LLM to a folder that holds `.llm/bin/python` with xllamacpp and `.llm/small.gguf`
(../shared/reference/local-llm.md, section 1). Without it these tests are skipped.
"""

import csv
import os
import random
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

import pytest

from prx.demo.world.bank import LABELS
from prx.domain.codec import content_hash
from prx.domain.records import Feedback, Interaction, Message, SessionStart, Trace
from prx.models.endpoint import ChatEndpoint, EndpointConfig
from prx.prove.checkers import ContainsLabel
from prx.prove.judge import judge_verdict
from prx.prove.judgements import ModelJudge, empty_state, judge_slice, judge_task
from prx.prove.pairs import AnsweredPair, PairState, checker_scorer, collect_pairs
from prx.prove.rebuild import PromptSwap
from prx.prove.rules import JudgeRules, RunRules
from prx.prove.tasks import tasks_from

pytestmark = pytest.mark.slow
SHARED = Path(__file__).parents[3] / "shared" / "local-llm"
VAGUE = "Classify the message. Labels: " + ", ".join(LABELS) + ". Answer with one label."
EXPLICIT = (
    "You route messages of a bank's customers. Reply with exactly one of these labels and nothing else:\n"
    + "\n".join(f"- {label}: messages about {label.replace('_', ' ')}" for label in LABELS)
)
AT = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ChatEndpoint]:
    folder = os.environ.get("PRX_TEST_LLM")
    if not folder or not (Path(folder) / ".llm/small.gguf").is_file() or not SHARED.is_dir():
        pytest.skip("no local model: PRX_TEST_LLM names no folder with .llm/small.gguf")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    llm = Path(folder) / ".llm"
    server = subprocess.Popen(
        [llm / "bin/python", SHARED / "llm_server.py", "--model", llm / "small.gguf", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait(f"http://127.0.0.1:{port}/health", server)
        config = EndpointConfig(role="agent", base_url=f"http://127.0.0.1:{port}/v1", model="local")
        yield ChatEndpoint(config)
    finally:
        server.terminate()
        server.wait(20)


def _wait(url: str, server: "subprocess.Popen[bytes]") -> None:
    for _ in range(120):
        if server.poll() is not None:
            pytest.skip("the local model server did not start")
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.5)
    pytest.skip("the local model server did not answer within a minute")


def traces(count: int) -> list[Trace]:
    text = files("prx.demo").joinpath("data/banking77_subset.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    chosen = random.Random(5).sample(rows, count)
    return [
        Trace(
            start=SessionStart(record_id=f"s{k}", at=AT, session_id=f"s{k}"),
            interactions=(
                Interaction(
                    record_id=f"i{k}",
                    at=AT + timedelta(seconds=k),
                    session_id=f"s{k}",
                    messages=(
                        Message(role="system", content=VAGUE),
                        Message(role="user", content=row["text"]),
                    ),
                    response="recorded",
                    prompts={"router": content_hash(VAGUE)},
                ),
            ),
            feedback=(
                Feedback(
                    record_id=f"f{k}",
                    at=AT,
                    target_kind="session",
                    target=f"s{k}",
                    name="expected",
                    value=row["intent"],
                ),
            ),
        )
        for k, row in enumerate(chosen)
    ]


@pytest.fixture(scope="module")
def answered(endpoint: ChatEndpoint) -> tuple[PairState, tuple[AnsweredPair, ...]]:
    swap = PromptSwap("router", VAGUE, EXPLICIT)
    scorer = checker_scorer(ContainsLabel(), LABELS)
    rules = RunRules(max_tokens=24, temperature=0.0)
    done = collect_pairs(
        PairState(started_at=AT), tasks_from(traces(24)), swap, endpoint, rules, scorer=scorer, limit=24
    )
    assert done.stopped is None
    return done.state, done.answered


def test_a_shadow_run_on_a_real_model_scores_every_pair_and_counts_its_tokens(
    answered: tuple[PairState, tuple[AnsweredPair, ...]],
) -> None:
    state, pairs = answered
    assert len(pairs) == len(state.pairs) == 24
    for numbers in state.pairs.values():
        assert numbers.stable.quality in (0.0, 1.0)
        assert numbers.candidate.quality in (0.0, 1.0)
        assert numbers.candidate.tokens is not None
        assert numbers.stable.tokens is not None
        assert numbers.candidate.tokens > numbers.stable.tokens
        assert (numbers.candidate.latency_ms or 0) > 0
    assert any(pair.stable != pair.candidate for pair in pairs)


def test_the_same_request_gives_the_same_answer_so_that_the_noise_floor_is_zero(
    endpoint: ChatEndpoint, answered: tuple[PairState, tuple[AnsweredPair, ...]]
) -> None:
    swap = PromptSwap("router", VAGUE, VAGUE)
    rules = RunRules(max_tokens=24, temperature=0.0)
    again = collect_pairs(PairState(started_at=AT), tasks_from(traces(8)), swap, endpoint, rules, limit=8)
    assert all(pair.stable == pair.candidate for pair in again.answered)


def test_a_judge_that_only_follows_the_place_is_refused(
    endpoint: ChatEndpoint, answered: tuple[PairState, tuple[AnsweredPair, ...]]
) -> None:
    judge = ModelJudge(endpoint, "preference", frozenset({"another-model"}))
    rules = JudgeRules(min_tasks=10, max_tasks=10, max_tokens=60)
    tasks = [judge_task(pair) for pair in answered[1][:10]]
    done = judge_slice(empty_state(judge), tasks, judge, rules, rng=random.Random(3))
    step = judge_verdict(done.state, rules, AT, exhausted=True)
    assert step.answer == "error", step.why
