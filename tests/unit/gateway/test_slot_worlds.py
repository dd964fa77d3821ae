"""Nothing that one session filled into a prompt gets into a template, a proposal or another session."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from slot_world import MARK, NOW, World

from prx.domain.changes import PromptPatch
from prx.domain.findings import Finding, FindingKind, Rate
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.domain.versions import PromptSet
from prx.models.port import ChatReply, ChatRequest
from prx.propose.draft import Considered, Current
from prx.propose.propose import consider

SESSIONS = 200
WORLDS = int(os.environ.get("PRX_SLOT_WORLDS", "505"))
RATE = Rate(count=30, total=50, low=0.46, high=0.72, rest_count=10, rest_total=100, p_value=1e-9)


class Proposer:
    """Writes the line that `line` makes of the evidence it is shown, and cites all of it."""

    name = "proposer"

    def __init__(self, line: Callable[[list[dict[str, str]]], str]) -> None:
        self._line = line

    def complete(self, request: ChatRequest) -> ChatReply:
        data = json.loads(request.messages[1].content.split("\n")[1])
        evidence = data["evidence"]
        op = {"op": "add", "text": self._line(evidence), "evidence_ids": [one["id"] for one in evidence]}
        return ChatReply(text=json.dumps({"ops": [op]}), model="proposer")


def copied(evidence: list[dict[str, str]]) -> str:
    """A few of the words of an answer, as a careless proposer would take them for an example."""
    return "Write as in: " + " ".join(evidence[0]["response"].split()[:3])


def honest(_evidence: list[dict[str, str]]) -> str:
    return "Confirm in one sentence what was done."


def proposed(world: World, line: Callable[[list[dict[str, str]]], str]) -> Considered:
    traces = world.traces()
    evidence = tuple(name for name, one in traces.items() if one.interactions[0].prompt_values)[:12]
    finding = Finding(
        finding_id="f1",
        agent="default",
        kind=FindingKind.PROMPT_WEAKNESS,
        fingerprint="x",
        severity=4,
        first_seen=NOW,
        last_seen=NOW,
        summary="users correct the answers",
        recommendation="refine the prompt",
        layer=Layer.PROMPT,
        prompt="main",
        rate=RATE,
        evidence=evidence,
    )
    rng = random.Random(world.seed)
    return consider(
        [finding],
        current=Current(prompts=PromptSet(texts={"main": world.champion})),
        traces=traces.get,
        ids=Ids(rng),
        now=NOW,
        rng=rng,
        proposer=Proposer(line),
    )


def run_worlds(folder: Path, count: int) -> tuple[int, int, int]:
    """Sessions run, replaced and drafts made; fails at the first value in a wrong place."""
    sessions = replaced = drafts = learned = 0
    for seed in range(count):
        world = World(folder / str(seed), seed, SESSIONS)
        world.run()
        assert world.leaks == [], (seed, world.leaks[:3])
        sessions += SESSIONS
        replaced += world.replaced
        if not world.champion:
            continue
        learned += 1
        for line in (copied, honest):
            made = proposed(world, line)
            texts = [repr(d.change) + d.description + d.rationale for d in made.drafts]
            assert not MARK.search("\n".join(texts)), seed
            assert all(isinstance(draft.change, PromptPatch) for draft in made.drafts)
            drafts += len(made.drafts)
    # Where nothing is learned or proposed, nothing could leak.
    assert learned >= 0.9 * count
    assert replaced >= 0.6 * sessions
    assert drafts >= 0.9 * learned
    return sessions, replaced, drafts


def test_three_thousand_sessions_keep_what_is_theirs(tmp_path: Path) -> None:
    assert run_worlds(tmp_path, 15)[0] == 3_000


@pytest.mark.slow
def test_a_hundred_thousand_sessions_keep_what_is_theirs(tmp_path: Path) -> None:
    assert run_worlds(tmp_path, WORLDS)[0] > 100_000
