"""Which conversation and which unit a request through the gateway is recorded under."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import urllib3
from chat_server import completion, response
from gateway_house import Provider, Running, gateway, interactions, provider, spooled, whole

from prx.domain.records import Feedback, SessionStart, UnitSource
from prx.gateway.tokens import parse_tokens

POOL = urllib3.PoolManager(retries=False)


@pytest.fixture
def upstream() -> Iterator[Provider]:
    served = iter(range(10_000))
    with provider(lambda _seen: whole(completion(f"answer {next(served)}"))) as one:
        yield one


def ask(running: Running, *said: str | dict[str, Any], path: str = "", **more: Any) -> str:
    """Send a chat request; the session that the gateway put it into."""
    headers = {k.replace("_", "-"): v for k, v in more.pop("headers", {}).items()}
    messages = [{"role": "user", "content": one} if isinstance(one, str) else one for one in said]
    body = {"model": "m", "messages": messages, **more}
    url = path or f"{running.url}/chat/completions"
    answer = POOL.request("POST", url, body=json.dumps(body), headers=headers)
    assert answer.status == 200
    return answer.headers["x-prx-session"]


def start_of(running: Running, session_id: str) -> SessionStart:
    (start,) = (
        r for r in spooled(running.home) if isinstance(r, SessionStart) and r.session_id == session_id
    )
    return start


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def test_our_header_wins_over_a_clients_header_and_that_over_the_body(running: Running) -> None:
    told = {"metadata": {"session_id": "from-body"}}
    client = {"X_OpenWebUI_Chat_Id": "from-client"}
    assert ask(running, "hi", headers=client | {"X_PRX_Session": "own"}, **told) == "own"
    assert ask(running, "hi", headers=client, **told) == "from-client"
    assert ask(running, "hi", **told) == "from-body"


def test_a_named_session_is_its_own_unit(running: Running) -> None:
    start = start_of(running, ask(running, "hi", headers={"X_PRX_Session": "s-1"}))
    assert (start.unit, start.unit_source, start.source) == ("s-1", UnitSource.SESSION, "gateway")


def test_without_any_sign_every_request_is_a_session_without_a_unit(running: Running) -> None:
    first, second = ask(running, "hi"), ask(running, "hi")
    assert first != second
    assert start_of(running, first).unit_source is UnitSource.NONE
    assert start_of(running, first).unit is None


def test_the_user_is_the_unit_but_never_the_session(running: Running) -> None:
    first, second = ask(running, "hi", user="ada"), ask(running, "hi", user="ada")
    assert first != second
    for one in (first, second):
        assert (start_of(running, one).unit, start_of(running, one).unit_source) == ("ada", UnitSource.USER)


def test_a_trace_id_sets_neither_session_nor_unit(running: Running) -> None:
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    first, second = ask(running, "hi", headers=trace), ask(running, "hi", headers=trace)
    assert first != second
    assert start_of(running, first).unit is None


def test_a_request_that_repeats_what_was_served_goes_on_in_that_session(running: Running) -> None:
    first = ask(running, "where is it?")
    assert ask(running, "where is it?", assistant("answer 0"), "and now?") == first
    assert ask(running, "other words", assistant("answer 1"), "more") == first
    assert len([r for r in spooled(running.home) if isinstance(r, SessionStart)]) == 1


def test_another_key_or_agent_never_joins_a_session_by_its_texts(running: Running) -> None:
    mine = {"Authorization": "Bearer key-a"}
    first = ask(running, "hi", headers=mine)
    again = ("hi", assistant("answer 0"), "more")
    assert ask(running, *again, headers={"Authorization": "Bearer key-b"}) != first
    assert ask(running, *again, headers=mine | {"X_PRX_Agent": "other"}) != first
    assert ask(running, *again, headers=mine) == first


def test_the_same_answer_in_two_sessions_names_neither(running: Running, upstream: Provider) -> None:
    upstream.script = lambda _seen: whole(completion("Hello!"))
    first, second = ask(running, "hi"), ask(running, "hi")
    third = ask(running, "hi", assistant("Hello!"), "more")
    assert third not in (first, second)


def test_what_was_asked_before_tells_equal_answers_apart(running: Running, upstream: Provider) -> None:
    upstream.script = lambda _seen: whole(completion("Sure."))
    first, second = ask(running, "refund order 1"), ask(running, "refund order 2")
    assert ask(running, "refund order 2", assistant("Sure."), "thanks") == second
    assert ask(running, "refund order 1", assistant("Sure."), "thanks") == first


def test_a_tool_result_goes_on_in_the_session_that_was_served_the_call(
    running: Running, upstream: Provider
) -> None:
    call = {"id": "call_77", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    upstream.script = lambda _seen: whole(completion(None, tool_calls=[call]))
    first = ask(running, "look it up")
    upstream.script = lambda _seen: whole(completion("done"))
    result = {"role": "tool", "tool_call_id": "call_77", "content": "42"}
    assert ask(running, "look it up", {"role": "assistant", "tool_calls": [call]}, result) == first


def test_previous_response_id_goes_on_in_its_session(running: Running, upstream: Provider) -> None:
    upstream.script = lambda _seen: whole(response("Hi"))

    def respond(**body: Any) -> str:
        answer = POOL.request("POST", f"{running.url}/responses", body=json.dumps({"model": "m", **body}))
        return answer.headers["x-prx-session"]

    first = respond(input="hello")
    assert respond(input="more", previous_response_id="resp_1") == first
    assert respond(input="more", previous_response_id="resp_unknown") != first


def test_the_agent_is_named_by_path_or_header_and_the_path_wins(running: Running) -> None:
    base = running.url.removesuffix("/v1")
    by_path = ask(running, "hi", path=f"{base}/a/shop/v1/chat/completions", headers={"X_PRX_Agent": "no"})
    assert start_of(running, by_path).agent == "shop"
    assert start_of(running, ask(running, "hi", headers={"X_PRX_Agent": "desk"})).agent == "desk"


@pytest.mark.parametrize("name", ["..", "a%20b", "-x", "x" * 65, "%00"])
def test_a_name_that_is_none_is_refused(running: Running, upstream: Provider, name: str) -> None:
    base = running.url.removesuffix("/v1").removeprefix("http://")
    import http.client

    connection = http.client.HTTPConnection(base)
    connection.request("POST", f"/a/{name}/v1/chat/completions", body="{}")
    assert connection.getresponse().status == 400
    connection.close()
    assert not upstream.seen


def test_a_very_long_session_id_is_kept_as_its_digest(running: Running) -> None:
    first = ask(running, "hi", headers={"X_PRX_Session": "s" * 5000})
    assert first.startswith("long-")
    assert ask(running, "hi", headers={"X_PRX_Session": "s" * 5000}) == first


def test_ref_tenant_channel_and_env_are_recorded(running: Running) -> None:
    headers = {
        "X_PRX_Session": "s",
        "X_PRX_Ref": "order-9",
        "X_PRX_Tenant": "t",
        "X_PRX_Channel": "web",
        "X_PRX_Env": "staging",
    }
    start = start_of(running, ask(running, "hi", headers=headers))
    assert (start.ref, start.tenant, start.channel, start.env) == ("order-9", "t", "web", "staging")
    assert interactions(running.home)[0].ref == "order-9"


def test_sessions_that_were_forgotten_come_back_with_one_start(tmp_path: Path, upstream: Provider) -> None:
    with gateway(tmp_path, upstream.url, sessions_kept=2) as running:
        for name in ("a", "b", "c", "a"):
            ask(running, "hi", headers={"X_PRX_Session": name})
        ids = [r.record_id for r in spooled(tmp_path) if isinstance(r, SessionStart)]
        assert ids == ["start/a", "start/b", "start/c", "start/a"]


def test_agents_cannot_be_named_without_end(running: Running, upstream: Provider) -> None:
    url = running.url.removesuffix("/v1")
    statuses = [
        POOL.request("POST", f"{url}/a/agent-{n}/v1/chat/completions", body=b'{"messages":[]}').status
        for n in range(203)
    ]
    assert statuses == [200] * 200 + [400] * 3
    assert len(interactions(running.home)) == 203


@pytest.mark.parametrize("key", ["Authorization", "api-key", "x-api-key", "x-goog-api-key"])
def test_two_keys_that_send_one_session_name_have_two_conversations(running: Running, key: str) -> None:
    """As a client would that learned the name of another's conversation."""
    victim, thief = {key: "Bearer a", "X_PRX_Session": "s-1"}, {key: "Bearer b", "X_PRX_Session": "s-1"}
    first = ask(running, "hi", headers=victim | {"X_PRX_User": "ada"})
    stolen = ask(running, "hi", headers=thief | {"X_PRX_User": "eve"})
    assert first == "s-1" != stolen
    assert (start_of(running, first).user, start_of(running, stolen).user) == ("ada", "eve")
    assert ask(running, "hi", headers=victim) == first
    assert ask(running, "hi", headers=thief) == stolen
    # Nor by the name that was made for another, nor as another agent.
    assert ask(running, "hi", headers=victim | {"X_PRX_Session": stolen}) not in (first, stolen)
    assert ask(running, "hi", headers=thief | {"X_PRX_Agent": "other"}) == stolen


@pytest.mark.parametrize("key", ["api-key", "x-api-key", "x-goog-api-key"])
def test_another_key_of_any_kind_never_joins_a_session_by_its_texts(running: Running, key: str) -> None:
    first = ask(running, "hi", headers={key: "a"})
    again = ("hi", assistant("answer 0"), "more")
    assert ask(running, *again, headers={key: "b"}) != first
    assert ask(running, *again, headers={key: "a"}) == first


def test_one_key_that_names_two_tenants_has_two_conversations(running: Running) -> None:
    first = ask(running, "hi", headers={"X_PRX_Session": "1", "X_PRX_Tenant": "acme"})
    second = ask(running, "hi", headers={"X_PRX_Session": "1", "X_PRX_Tenant": "zeta"})
    assert first != second
    assert start_of(running, second).tenant == "zeta"
    assert ask(running, "hi", headers={"X_PRX_Session": "1"}) == first


def test_tokens_of_one_name_share_conversations_and_others_do_not(tmp_path: Path, upstream: Provider) -> None:
    lines = {"one": "app", "one-new": "app", "two": "other"}
    text = "\n".join(f"{name} proxy,ingest {sha256(t.encode()).hexdigest()}" for t, name in lines.items())
    with gateway(tmp_path, upstream.url, tokens=parse_tokens(text, "tokens")) as running:

        def of(token: str) -> str:
            mine = {"Authorization": f"Bearer {token}-of-the-provider", "X_PRX_Key": token}
            return ask(running, "hi", headers=mine | {"X_PRX_Session": "s-1"})

        assert of("one") == of("one-new") == "s-1"
        apart = of("two")
        assert apart != "s-1"
        for token in ("one", "two"):
            signal = {"session": "s-1", "name": "thumb", "value": "up"}
            sent = POOL.request(
                "POST",
                running.url.removesuffix("/v1") + "/api/v1/feedback",
                body=json.dumps(signal),
                headers={"Authorization": f"Bearer {token}"},
            )
            assert sent.status == 202
        given = [r.target for r in spooled(running.home) if isinstance(r, Feedback)]
        assert given == ["s-1", apart]
