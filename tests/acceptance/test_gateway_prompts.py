"""From traffic to a learned template, to acceptance, to the versions that the gateway serves."""

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import urllib3
from chat_server import response
from gateway_house import Provider, Running, eventually, gateway, interactions, spooled, whole

from prx.domain.codec import content_hash
from prx.domain.holdback import Holdback, HoldStep
from prx.domain.layers import Layer
from prx.domain.records import Assignment, Exposure, Interaction, PromptSeen
from prx.domain.serving import ServedExperiment, ServedHoldback, Serving
from prx.gateway.prompts.learner import LearnRules
from prx.gateway.prompts.store import PromptFiles
from prx.gateway.serving import LedgerReader
from prx.live.assign import held_back

POOL = urllib3.PoolManager(retries=False)
NOW = datetime(2026, 12, 1, tzinfo=UTC)
FEW = LearnRules(units=5)
TEXT = "You are the agent of {}. Answer in two short sentences."
TEMPLATE = "You are the agent of {slot_1}. Answer in two short sentences."
BETTER = "You are the best agent of {slot_1}. Answer in one short sentence."


@pytest.fixture
def running(tmp_path: Path, upstream: Provider) -> Iterator[Running]:
    with gateway(tmp_path, upstream.url, learn=FEW) as one:
        yield one


def chat(running: Running, system: str, session: str, **more: Any) -> urllib3.BaseHTTPResponse:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": f"hi from {session}"}]
    body = json.dumps({"model": "m", "messages": messages, **more}).encode()
    headers = {"X-PRX-Session": session}
    answer = POOL.request("POST", f"{running.url}/chat/completions", body=body, headers=headers)
    assert answer.status == 200
    return answer


def system_sent(upstream: Provider) -> str:
    return upstream.seen[-1].json["messages"][0]["content"]


def learn(running: Running, text: str = TEXT, first: int = 0, names: str = "Ada") -> None:
    for n in range(first, first + 8):
        chat(running, text.format(f"{names}{n}"), f"learn-{first}-{n}")


def accepted(running: Running, name: str = "system") -> None:
    files = PromptFiles(running.home)
    eventually(lambda: any(one.name == name for one in files.learned()))
    files.accept("default", name, new_name="support", now=NOW, by="test")
    # The gateway looks for what was accepted several times a second.
    eventually(lambda: running.gateway.managed("default") == ("support",))


def given(monkeypatch: pytest.MonkeyPatch, **serving: Any) -> None:
    """What the ledger says, without an engine."""
    known = {"version": "v1.0", "baselines": {"support": (content_hash(TEMPLATE),)}} | serving
    monkeypatch.setattr(LedgerReader, "read", lambda _self, agent: Serving(agent=agent, **known))


def experiment(split: float) -> ServedExperiment:
    return ServedExperiment(
        experiment_id="exp-1",
        layer=Layer.PROMPT,
        ramp=1.0,
        traffic_split=split,
        ramp_salt="r",
        variant_salt="v",
        prompts={"support": BETTER},
    )


def of_kind(home: Path, kind: type) -> list[Any]:
    return [record for record in spooled(home) if isinstance(record, kind)]


def test_before_acceptance_no_byte_changes_and_no_value_is_written_to_the_learned_file(
    running: Running, upstream: Provider
) -> None:
    learn(running)
    learned = eventually(PromptFiles(running.home).learned)
    assert [(one.name, one.text, one.slots) for one in learned] == [("system", TEMPLATE, ("slot_1",))]
    raw = (running.home / "prompts" / "learned.json").read_bytes()
    assert b"Ada" not in raw
    assert of_kind(running.home, PromptSeen) == []
    raw = b'{"messages": [ {"content":"' + TEXT.format("Bo").encode() + b'","role":"system"}]}'
    POOL.request("POST", f"{running.url}/chat/completions", body=raw)
    assert upstream.seen[-1].body == raw


def test_an_accepted_prompt_is_reported_once_as_a_template_and_served_as_sent_without_a_version(
    running: Running, upstream: Provider
) -> None:
    learn(running)
    accepted(running)
    for n in range(3):
        chat(running, TEXT.format(f"Bo{n}"), f"s-{n}")
        assert system_sent(upstream) == TEXT.format(f"Bo{n}")
    (seen,) = of_kind(running.home, PromptSeen)
    assert (seen.name, seen.text) == ("support", TEMPLATE)
    record = interactions(running.home)[-1]
    assert record.prompts == {"support": content_hash(TEMPLATE)}
    assert record.prompt_values == {"support": {"slot_1": "Bo2"}}


def test_the_champion_is_served_with_the_sessions_own_values(
    tmp_path: Path, upstream: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, prompts={"support": BETTER})
    with gateway(tmp_path, upstream.url, learn=FEW) as running:
        learn(running)
        accepted(running)
        odd = 'Bo "{slot_1}"\n\\ <b> \u4f60'
        chat(running, TEXT.format(odd), "s-1", temperature=1.50, extra={"k": [1.0, None]})
        assert system_sent(upstream) == BETTER.replace("{slot_1}", odd)
        assert b'"temperature": 1.5,' in upstream.seen[-1].body
        assert upstream.seen[-1].json["extra"] == {"k": [1.0, None]}
        assert upstream.seen[-1].json["messages"][1] == {"role": "user", "content": "hi from s-1"}
        record = interactions(tmp_path)[-1]
        assert record.messages[0].content == system_sent(upstream)
        assert record.version == "v1.0"


def test_a_prompt_in_instructions_or_in_a_text_part_is_served_the_same_way(
    tmp_path: Path, upstream: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, prompts={"support": BETTER})
    with gateway(tmp_path, upstream.url, learn=FEW) as running:
        learn(running)
        accepted(running)
        chat(running, [{"type": "text", "text": TEXT.format("Bo"), "cache_control": {"a": 1}}], "s-1")  # type: ignore[arg-type]
        (part,) = upstream.seen[-1].json["messages"][0]["content"]
        assert part == {"type": "text", "text": BETTER.replace("{slot_1}", "Bo"), "cache_control": {"a": 1}}
        upstream.script = lambda _seen: whole(response("Hi"))
        body = {"model": "m", "instructions": TEXT.format("Bo"), "input": "hi"}
        POOL.request("POST", f"{running.url}/responses", body=json.dumps(body))
        assert upstream.seen[-1].json == body | {"instructions": BETTER.replace("{slot_1}", "Bo")}


def test_sessions_are_assigned_before_the_provider_is_asked_and_get_their_arm(
    tmp_path: Path, upstream: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, prompts={"support": TEMPLATE}, experiments=(experiment(0.5),))
    with gateway(tmp_path, upstream.url, learn=FEW) as running:
        learn(running)
        accepted(running)
        arms: dict[str, int] = {"control": 0, "treatment": 0}
        for n in range(40):
            answer = chat(running, TEXT.format(f"Bo{n}"), f"s-{n}")
            arm = answer.headers["x-prx-assigned"]
            arms[arm] += 1
            assert answer.headers["x-prx-experiment"] == "exp-1"
            assert answer.headers["x-prx-served"] == arm
            expected = BETTER if arm == "treatment" else TEMPLATE
            assert system_sent(upstream) == expected.replace("{slot_1}", f"Bo{n}")
            again = chat(running, TEXT.format(f"Bo{n}"), f"s-{n}")
            assert again.headers["x-prx-assigned"] == arm
        assert min(arms.values()) > 5
        assert len(of_kind(tmp_path, Assignment)) == 40
        order = [type(r) for r in spooled(tmp_path) if getattr(r, "session_id", "") == "s-7"]
        assert order.index(Assignment) < order.index(Exposure) < order.index(Interaction)


def test_units_held_back_get_the_previous_text_and_the_same_ones_as_in_the_sdk(
    tmp_path: Path, upstream: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = HoldStep(share=0.5, until=datetime(2126, 1, 1, tzinfo=UTC))
    plan = Holdback(holdback_id="holdback/p", layer=Layer.PROMPT, previous="-", salt="h", steps=(step,))
    held = ServedHoldback(plan=plan, prompts={"support": TEMPLATE})
    given(monkeypatch, prompts={"support": BETTER}, holdbacks=(held,))
    with gateway(tmp_path, upstream.url, learn=FEW) as running:
        learn(running)
        accepted(running)
        sent = {}
        for n in range(30):
            chat(running, TEXT.format(f"Bo{n}"), f"s-{n}")
            sent[f"Bo{n}"] = system_sent(upstream) == TEMPLATE.replace("{slot_1}", f"Bo{n}")
        found = of_kind(tmp_path, Assignment)
        served = {one.session_id: one.served for one in of_kind(tmp_path, Exposure)}
    assert len(found) == len(served) == 30
    for one in found:
        assert one.experiment_id == "holdback/p"
        assert (one.variant == "control") is held_back(one.unit, "h", 0.5)
        assert served[one.session_id] == one.variant
    assert sum(sent.values()) == sum(one.variant == "control" for one in found)
    assert 5 < sum(sent.values()) < 25


def test_the_kill_switch_sends_everyone_to_the_champion_within_a_second(
    tmp_path: Path, upstream: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, prompts={"support": TEMPLATE}, experiments=(experiment(1.0),))
    with gateway(tmp_path, upstream.url, learn=FEW) as running:
        learn(running)
        accepted(running)
        assert chat(running, TEXT.format("Bo"), "s-1").headers["x-prx-served"] == "treatment"
        (tmp_path / "kill").touch()
        base = running.url.removesuffix("/v1")
        eventually(lambda: POOL.request("GET", f"{base}/health").json()["killed"], 1.0)
        answer = chat(running, TEXT.format("Bo"), "s-1")
        assert (answer.headers["x-prx-assigned"], answer.headers["x-prx-served"]) == ("treatment", "control")
        assert system_sent(upstream) == TEXT.format("Bo")
        assert "x-prx-assigned" not in chat(running, TEXT.format("Cy"), "s-2").headers
        (tmp_path / "kill").unlink()
        eventually(lambda: not POOL.request("GET", f"{base}/health").json()["killed"], 1.0)
        assert chat(running, TEXT.format("Bo"), "s-1").headers["x-prx-served"] == "treatment"


def test_an_experiment_that_cannot_be_worked_out_leaves_everyone_with_the_champion(
    tmp_path: Path, upstream: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, prompts={"support": BETTER}, experiments=(experiment(math.nan),))
    with gateway(tmp_path, upstream.url, learn=FEW) as running:
        learn(running)
        accepted(running)
        assert chat(running, TEXT.format("Bo"), "s-1").status == 200
        assert system_sent(upstream) == BETTER.replace("{slot_1}", "Bo")
        health = POOL.request("GET", f"{running.url.removesuffix('/v1')}/health").json()
        assert health["problems"] == ["experiment: failed 1 times"]
        assert interactions(tmp_path)[-1].prompts == {"support": content_hash(BETTER)}


def test_a_text_that_does_not_fit_passes_byte_for_byte(
    tmp_path: Path, upstream: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, prompts={"support": BETTER})
    with gateway(tmp_path, upstream.url, learn=FEW) as running:
        learn(running)
        accepted(running)
        raw = b'{ "model":"m","messages":[{"role":"system","content":"Something else."}],"x":1.0 }'
        POOL.request("POST", f"{running.url}/chat/completions", body=raw)
        assert upstream.seen[-1].body == raw


def test_a_version_written_for_other_slots_is_not_served(
    tmp_path: Path, upstream: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, prompts={"support": BETTER + " Speak {slot_2}."})
    with gateway(tmp_path, upstream.url, learn=FEW) as running:
        learn(running)
        accepted(running)
        chat(running, TEXT.format("Bo"), "s-1")
        assert system_sent(upstream) == TEXT.format("Bo")


def test_a_baseline_that_the_developer_changes_is_served_as_sent_at_once_and_then_reported(
    tmp_path: Path, upstream: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, prompts={"support": BETTER})
    changed = "You are the agent of {}. Answer in two short sentences, and never in verse."
    with gateway(tmp_path, upstream.url, learn=FEW) as running:
        learn(running)
        accepted(running)
        chat(running, TEXT.format("Bo"), "s-1")
        assert system_sent(upstream).startswith("You are the best agent of Bo")
        for n in range(6):
            chat(running, changed.format(f"Cy{n}"), f"c-{n}")
            assert system_sent(upstream) == changed.format(f"Cy{n}")
        follows = eventually(lambda: [o for o in PromptFiles(tmp_path).learned() if o.follows])
        assert [o.follows for o in follows] == ["support"]
        chat(running, changed.format("Dee"), "d-1")
        assert system_sent(upstream) == changed.format("Dee")
        seen = {record.text for record in of_kind(tmp_path, PromptSeen)}
        assert seen == {changed.format("{slot_1}")}


def test_a_restart_neither_learns_again_nor_forgets_what_was_accepted(
    tmp_path: Path, upstream: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, prompts={"support": BETTER})
    with gateway(tmp_path, upstream.url, learn=FEW) as running:
        learn(running)
        accepted(running)
    with gateway(tmp_path, upstream.url, learn=FEW) as running:
        learn(running, first=100)
        assert system_sent(upstream).startswith("You are the best agent of Ada107")
    assert len(PromptFiles(tmp_path).learned()) == 1


def test_the_engine_makes_a_version_of_an_accepted_prompt_and_the_gateway_serves_what_a_person_sets(
    running: Running, upstream: Provider
) -> None:
    """Gateway, spool, store, engine and ledger of one state folder, with nothing faked."""
    from prx.wiring.app import open_app

    learn(running)
    accepted(running)
    chat(running, TEXT.format("Bo"), "s-1")
    app = open_app(home=running.home, env={"HOME": str(running.home)})
    try:
        app.ship()
        app.engine.advance(app.now())
        with app.ledger.view() as view:
            pointer = view.pointer("default")
        assert pointer is not None
        assert pointer.label == "v1.0"
    finally:
        app.close()

    def version_of_a_new_session() -> bool:
        chat(running, TEXT.format("Cy"), f"v-{len(upstream.seen)}")
        return interactions(running.home)[-1].version == "v1.0"

    eventually(version_of_a_new_session)
    assert system_sent(upstream) == TEXT.format("Cy")
    assert interactions(running.home)[-1].prompts == {"support": content_hash(TEMPLATE)}


def test_a_template_that_was_erased_does_not_come_back_with_the_next_one_learned(running: Running) -> None:
    """As `prx erase` does from another process while the gateway runs."""
    learn(running)
    files = PromptFiles(running.home)
    eventually(files.learned)
    assert files.forget(lambda text: "two short sentences" in text) == 1
    learn(running, "Translate the letters of {} into French, please.", first=50)
    assert [one.text for one in eventually(files.learned)] == [
        "Translate the letters of {slot_1} into French, please."
    ]


def test_a_changed_text_that_was_erased_is_not_offered_any_more(running: Running) -> None:
    learn(running)
    accepted(running)
    changed = "You are the kind agent of {}. Answer in three short sentences."
    learn(running, changed, first=100, names="Bea")
    files = PromptFiles(running.home)
    eventually(lambda: len(files.learned()) == 2)
    chat(running, changed.format("Cy"), "s-1")
    eventually(lambda: any("kind agent" in one.text for one in of_kind(running.home, PromptSeen)))
    assert files.forget(lambda text: "kind agent" in text) == 1
    # Then the accepted text is what is managed again, and the changed one passes as one that is not known.
    asked = iter(range(10_000))

    def unknown() -> bool:
        chat(running, changed.format("E"), f"later-{next(asked)}")
        return not interactions(running.home)[-1].prompts

    eventually(unknown)
