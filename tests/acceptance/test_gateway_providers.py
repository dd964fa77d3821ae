"""Providers that fail, several of them, and clients that leave: through real sockets."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import urllib3
from chat_server import completion
from gateway_house import Provider, Reply, Running, Seen, eventually, gateway, interactions, provider, whole

from prx.domain.errors import SettingsError
from prx.domain.records import Interaction, Terminal
from prx.gateway.policy import AUTO, Policy
from prx.settings.gateway import GatewayModel, GatewayPolicy, GatewayUpstream

POOL = urllib3.PoolManager(retries=False)
SOON = {"retry-after-ms": "5"}
KEY, CLIENTS = "key-of-the-other-provider", "Bearer key-of-the-client"


@pytest.fixture
def running(tmp_path: Path, upstream: Provider) -> Iterator[Running]:
    with gateway(tmp_path, upstream.url, policy=Policy()) as one:
        yield one


def ask(running: Running, path: str = "/chat/completions", model: str = "m", **headers: str) -> Any:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    return POOL.request("POST", running.url + path, body=json.dumps(body), headers=headers)


def failing(times: int, status: int = 503, **headers: str) -> Any:
    """Fails so often, then answers."""
    left = [times]

    def script(_seen: Seen) -> Reply:
        left[0] -= 1
        error = {"error": {"message": "overloaded", "type": "server_error"}}
        return whole(error, status=status, headers=headers or SOON) if left[0] >= 0 else whole(completion())

    return script


def the_record(running: Running) -> Interaction:
    (record,) = interactions(running.home)
    return record


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_a_passing_failure_is_tried_again_and_recorded_as_one_request(
    running: Running, upstream: Provider, status: int
) -> None:
    upstream.script = failing(2, status)
    answer = ask(running)
    assert (answer.status, len(upstream.seen)) == (200, 3)
    assert "x-should-retry" not in answer.headers
    record = the_record(running)
    assert (record.terminal, record.extra["attempts"]) == (Terminal.COMPLETED, 3)
    assert len({seen.body for seen in upstream.seen}) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_what_another_try_cannot_change_is_given_on_at_once(
    running: Running, upstream: Provider, status: int
) -> None:
    upstream.script = failing(2, status)
    assert ask(running).status == status
    assert len(upstream.seen) == 1


def test_a_client_of_openai_does_not_multiply_the_tries_of_the_gateway(
    running: Running, upstream: Provider
) -> None:
    upstream.script = failing(100)
    client = openai.OpenAI(api_key="k", base_url=running.url, max_retries=2)
    with pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert len(upstream.seen) == 3
    record = the_record(running)
    assert (record.terminal, record.extra["attempts"]) == (Terminal.UPSTREAM_ERROR, 3)


def test_a_provider_that_cannot_be_reached_is_tried_again_too(tmp_path: Path) -> None:
    with gateway(tmp_path, "http://127.0.0.1:9/v1", policy=Policy(GatewayPolicy(retries=1))) as running:
        answer = ask(running)
        assert (answer.status, answer.headers["x-should-retry"]) == (502, "false")
        assert the_record(running).extra["attempts"] == 2


@pytest.mark.parametrize(
    "headers",
    [
        {"x-stainless-read-timeout": "2"},
        {"x-stainless-timeout": "2.0"},
        {"x-portkey-request-timeout": "2000"},
    ],
)
def test_no_try_begins_when_its_client_will_have_left(
    running: Running, upstream: Provider, headers: dict[str, str]
) -> None:
    upstream.script = failing(1, 429, **{"retry-after": "10"})
    answer = ask(running, **headers)
    assert (answer.status, len(upstream.seen)) == (429, 1)
    # The client may still know better.
    assert answer.headers["retry-after"] == "10"
    assert "x-should-retry" not in answer.headers


def test_the_provider_can_forbid_another_try(running: Running, upstream: Provider) -> None:
    upstream.script = failing(1, 503, **{"x-should-retry": "false"})
    assert ask(running).status == 503
    assert len(upstream.seen) == 1


def test_a_wait_longer_than_the_operator_allows_is_left_to_the_client(
    running: Running, upstream: Provider
) -> None:
    upstream.script = failing(1, 503, **{"retry-after": "61"})
    assert ask(running).status == 503
    assert len(upstream.seen) == 1


def test_a_stream_that_broke_after_its_first_byte_is_not_begun_again(
    running: Running, upstream: Provider
) -> None:
    events = {"Content-Type": "text/event-stream"}
    upstream.script = lambda _seen: Reply([b'data: {"choices": []}\n\n'], headers=events, abort=True)
    body = {"model": "m", "messages": [], "stream": True}
    answer = POOL.request("POST", f"{running.url}/chat/completions", body=json.dumps(body))
    assert b'"error"' in answer.data
    assert len(upstream.seen) == 1
    assert the_record(running).terminal is Terminal.UPSTREAM_ERROR


def test_paths_that_the_gateway_does_not_know_are_asked_once(running: Running, upstream: Provider) -> None:
    upstream.script = failing(1)
    assert ask(running, "/images/generations").status == 503
    assert len(upstream.seen) == 1


def leave(running: Running, path: str) -> None:
    """Ask, and go away before the answer."""
    connection = http.client.HTTPConnection(running.url.split("/")[2])
    connection.request("POST", path, json.dumps({"model": "m", "messages": []}))
    eventually(lambda: running.gateway.metrics is not None)
    connection.sock.settimeout(0.3)
    with pytest.raises(TimeoutError):
        connection.sock.recv(1)
    connection.close()


def test_a_client_that_leaves_cancels_its_call_unless_the_path_is_one_that_goes_on(
    tmp_path: Path, upstream: Provider
) -> None:
    upstream.script = lambda _seen: whole(completion(), delay=1.0)
    policy = Policy(GatewayPolicy(continue_after_disconnect=("/a/batch/*",)))
    with gateway(tmp_path, upstream.url, policy=policy) as running:
        leave(running, "/v1/chat/completions")
        (cancelled,) = eventually(lambda: interactions(tmp_path))
        assert cancelled.terminal is Terminal.CLIENT_CANCELLED
        leave(running, "/a/batch/v1/chat/completions")
        eventually(lambda: len(interactions(tmp_path)) == 2)
    kept = interactions(tmp_path)[-1]
    assert (kept.terminal, kept.extra["client_left"]) == (Terminal.COMPLETED, True)
    assert kept.response
    assert upstream.gone == 1


def test_each_model_goes_to_its_provider_with_its_key_and_its_price(
    tmp_path: Path, upstream: Provider
) -> None:
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 1_000_000, "total_tokens": 2_000_000}
    with provider(lambda _seen: whole(completion() | {"model": "big", "usage": usage})) as other:
        given = GatewayPolicy(
            upstreams=(
                GatewayUpstream(name="other", url=other.url, key=KEY),
                GatewayUpstream("free", other.url),
            ),
            models=(
                GatewayModel(name="big", upstream="other", price_input=3.0, price_output=4.0),
                GatewayModel(name="free-*", upstream="free"),
            ),
        )
        with gateway(tmp_path, upstream.url, policy=Policy(given)) as running:
            own = {"Authorization": CLIENTS, "OpenAI-Organization": "org", "x-api-key": "x"}
            ask(running, model="big", **own)
            ask(running, model="free-1", **own)
            ask(running, model="elsewhere", **own)
    assert [seen.header("authorization") for seen in other.seen] == [f"Bearer {KEY}", None]
    assert not [seen for seen in other.seen if seen.header("openai-organization") or seen.header("x-api-key")]
    assert [seen.header("authorization") for seen in upstream.seen] == [CLIENTS]
    assert upstream.seen[0].json["model"] == "elsewhere"
    assert interactions(tmp_path)[0].cost_usd == 7.0


def test_the_router_chooses_among_the_named_models_where_the_client_leaves_it_to_it(
    tmp_path: Path, upstream: Provider
) -> None:
    cheap = GatewayModel(name="cheap", price_input=0.1, price_output=0.2)
    dear = GatewayModel(name="dear", price_input=10.0, price_output=20.0)
    raw = b'{"messages": [ {"role":"user","content":"hi"} ],  "model":"prx/auto", "temperature":1.0}'
    with gateway(tmp_path, upstream.url, policy=Policy(GatewayPolicy(models=(dear, cheap)))) as running:
        answer = POOL.request("POST", f"{running.url}/chat/completions", body=raw)
        assert answer.status == 200
    chosen = upstream.seen[-1].json["model"]
    assert upstream.seen[-1].body == raw.replace(AUTO.encode(), chosen.encode())
    record = interactions(tmp_path)[-1]
    assert record.routing is not None
    assert (record.routing.chosen, {score.model for score in record.routing.scores}) == (
        chosen,
        {"cheap", "dear"},
    )
    # Of two models of which nothing but the price is known, the cheaper one is chosen.
    assert chosen == "cheap"


def test_without_models_the_router_has_no_choice_and_says_so(running: Running, upstream: Provider) -> None:
    answer = ask(running, model=AUTO)
    assert (answer.status, answer.json()["error"]["code"]) == (404, "model_not_found")
    assert not upstream.seen
    assert the_record(running).extra["status"] == 404


UP = GatewayUpstream(name="up", url="http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (GatewayPolicy(models=(GatewayModel(name="m", upstream="gone"),)), "known: none"),
        (GatewayPolicy(upstreams=(UP, UP)), "same name"),
        (GatewayPolicy(upstreams=(GatewayUpstream(name="x"),)), "no url"),
        (GatewayPolicy(models=(GatewayModel(name="m", price_input=1.0),)), "give both"),
        (GatewayPolicy(models=(GatewayModel(name="m*", price_input=1.0, price_output=1.0),)), "pattern"),
        (GatewayPolicy(models=(GatewayModel(name=AUTO),)), "name the models"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(given: GatewayPolicy, what: str) -> None:
    with pytest.raises(SettingsError, match=what):
        Policy(given)
