"""The gateway's own endpoints, who may use them, and what never leaves the process."""

import json
import logging
import os
import subprocess
import sys
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import urllib3
from chat_server import completion
from gateway_house import (
    SECRET,
    Provider,
    Reply,
    Running,
    Seen,
    every_byte,
    gateway,
    interactions,
    provider,
    spooled,
    whole,
)

from prx.domain.errors import SettingsError
from prx.domain.records import Feedback, SessionEnd
from prx.gateway.prompts.learner import LearnRules
from prx.gateway.rules import GatewayRules, KeyMode, check
from prx.gateway.tokens import parse_tokens
from prx.records.memory import MemoryRecords

POOL = urllib3.PoolManager(retries=False)
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PROXY, INGEST, READ = "proxy-token-0123456789", "ingest-token-0123456789", "read-token-0123456789"


def digest(token: str) -> str:
    return sha256(token.encode()).hexdigest()


TOKENS = parse_tokens(
    f"""
    # name scopes digest
    app proxy {digest(PROXY)}
    feed ingest sha256:{digest(INGEST)}
    prometheus read {digest(READ)}
    """,
    "tokens",
)


def call(running: Running, method: str, path: str, body: Any = None, token: str = "") -> Any:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    return POOL.request(method, running.url.removesuffix("/v1") + path, body=data, headers=headers)


def feedback(running: Running, **body: Any) -> Any:
    return call(running, "POST", "/api/v1/feedback", body)


def test_feedback_is_recorded_for_a_record_a_session_or_a_ref(running: Running) -> None:
    for target in ({"record": "r-1"}, {"session": "s-1"}, {"ref": "order-9"}):
        answer = feedback(running, name="thumb", value="up", **target)
        assert answer.status == 202
        assert answer.json()["accepted"] is True
    found = [r for r in spooled(running.home) if isinstance(r, Feedback)]
    assert [(r.target_kind, r.target, r.value) for r in found] == [
        ("interaction", "r-1", 1.0),
        ("session", "s-1", 1.0),
        ("ref", "order-9", 1.0),
    ]


def test_the_same_feedback_id_twice_changes_nothing_in_the_store(running: Running) -> None:
    for value in (1, 1):
        assert feedback(running, name="thumb", value=value, session="s", id="f-1").json()["id"] == "f-1"
    store = MemoryRecords()
    assert store.append([r for r in spooled(running.home) if isinstance(r, Feedback)]) == 1


def test_a_feedback_id_cannot_take_the_place_of_another_record(running: Running) -> None:
    feedback(running, name="thumb", value=1, session="s", id="start/s")
    (found,) = (r for r in spooled(running.home) if isinstance(r, Feedback))
    assert found.record_id == "feedback/start/s"


def test_a_time_of_its_own_is_kept(running: Running) -> None:
    feedback(running, name="csat", value="fine", session="s", at="2026-11-30T10:00:00+01:00")
    (found,) = (r for r in spooled(running.home) if isinstance(r, Feedback))
    assert found.at == datetime(2026, 11, 30, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b"\xff", 400, "invalid_json"),
        (b"[]", 422, "invalid_field"),
        ({"name": "thumb", "value": 1}, 422, "invalid_target"),
        ({"name": "thumb", "value": 1, "session": "a", "ref": "b"}, 422, "invalid_target"),
        ({"name": "thumb", "value": 2, "session": "a"}, 422, "invalid_value"),
        ({"name": "thumb", "value": "maybe", "session": "a"}, 422, "invalid_value"),
        ({"name": "thumb", "session": "a"}, 422, "invalid_field"),
        ({"name": "", "value": 1, "session": "a"}, 422, "invalid_field"),
        ({"name": "x" * 600, "value": 1, "session": "a"}, 422, "invalid_field"),
        ({"name": "thumb", "value": 1, "session": "a", "at": "2026-01-01T00:00:00"}, 422, "invalid_field"),
        ({"name": "thumb", "value": 1, "session": "a", "more": 1}, 422, "invalid_field"),
        ({"name": "n", "value": "x" * 70_000, "session": "a"}, 413, "too_large"),
    ],
)
def test_what_is_wrong_with_feedback_is_said_in_the_error_envelope(
    running: Running, body: Any, status: int, code: str
) -> None:
    answer = call(running, "POST", "/api/v1/feedback", body)
    assert answer.status == status
    error = answer.json()["error"]
    assert set(error) == {"code", "message", "details"}
    assert error["code"] == code
    assert not [r for r in spooled(running.home) if isinstance(r, Feedback)]


def test_a_session_is_ended_once_however_often_it_is_told(running: Running) -> None:
    for _ in range(2):
        assert call(running, "POST", "/api/v1/sessions/s-1/end").status == 202
    ends = [r for r in spooled(running.home) if isinstance(r, SessionEnd)]
    assert {r.record_id for r in ends} == {"end/s-1"}
    store = MemoryRecords()
    assert store.append(ends) == 1


def test_an_unknown_endpoint_of_ours_never_reaches_the_provider(running: Running, upstream: Provider) -> None:
    answer = call(running, "GET", "/api/v1/none")
    assert (answer.status, answer.json()["error"]["code"]) == (404, "not_found")
    assert not upstream.seen


def test_health_and_metrics_say_what_happened(running: Running) -> None:
    POOL.request("POST", f"{running.url}/chat/completions", body=json.dumps(CHAT))
    for path in ("/livez", "/readyz", "/health"):
        assert call(running, "GET", path).json()["status"] == "ok"
    text = call(running, "GET", "/metrics").data.decode()
    assert 'prx_gateway_requests_total{terminal="completed"} 1' in text
    assert "prx_gateway_overhead_seconds_count 1" in text
    assert 'prx_gateway_overhead_seconds_bucket{le="+Inf"} 1' in text


def test_the_overhead_does_not_hold_the_wait_for_the_provider(running: Running, upstream: Provider) -> None:
    upstream.script = lambda _seen: whole(completion(), delay=0.3)
    answer = POOL.request("POST", f"{running.url}/chat/completions", body=json.dumps(CHAT))
    assert 0.0 < float(answer.headers["x-prx-overhead-ms"]) < 300.0
    (record,) = interactions(running.home)
    assert record.latency_ms is not None
    assert record.latency_ms >= 300.0


@pytest.mark.parametrize(
    ("path", "needs"),
    [("/api/v1/feedback", INGEST), ("/api/v1/sessions/s/end", INGEST), ("/metrics", READ)],
)
def test_each_endpoint_needs_its_scope(tmp_path: Path, upstream: Provider, path: str, needs: str) -> None:
    body = {"name": "thumb", "value": 1, "session": "s"} if path.endswith("feedback") else None
    method = "GET" if path == "/metrics" else "POST"
    with gateway(tmp_path, upstream.url, tokens=TOKENS) as running:
        assert call(running, method, path, body).status == 401
        assert call(running, method, path, body, "wrong").status == 401
        other = READ if needs == INGEST else INGEST
        assert call(running, method, path, body, other).status == 403
        assert call(running, method, path, body, needs).status in (200, 202)


def test_in_passthrough_mode_our_token_opens_and_the_clients_key_passes(
    tmp_path: Path, upstream: Provider
) -> None:
    with gateway(tmp_path, upstream.url, tokens=TOKENS) as running:
        url = f"{running.url}/chat/completions"
        headers = {"Authorization": f"Bearer {SECRET}"}
        assert POOL.request("POST", url, body=json.dumps(CHAT), headers=headers).status == 401
        assert not upstream.seen
        answer = POOL.request("POST", url, body=json.dumps(CHAT), headers=headers | {"X-PRX-Key": PROXY})
        assert answer.status == 200
        assert upstream.seen[0].header("authorization") == f"Bearer {SECRET}"
        assert upstream.seen[0].header("x-prx-key") is None


def test_in_gateway_mode_the_provider_gets_the_operators_key_only(tmp_path: Path, upstream: Provider) -> None:
    rules = {"tokens": TOKENS, "key_mode": KeyMode.GATEWAY, "upstream_key": SECRET}
    with gateway(tmp_path, upstream.url, **rules) as running:
        url = f"{running.url}/chat/completions"
        refused = POOL.request("POST", url, body=json.dumps(CHAT), headers={"Authorization": "Bearer no"})
        assert (refused.status, refused.json()["error"]["code"]) == (401, "invalid_api_key")
        headers = {"Authorization": f"Bearer {PROXY}"}
        assert POOL.request("POST", url, body=json.dumps(CHAT), headers=headers).status == 200
        assert upstream.seen[0].header("authorization") == f"Bearer {SECRET}"
        assert PROXY not in str(upstream.seen[0].headers)


def test_no_key_is_in_any_file_or_log(
    tmp_path: Path, upstream: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    error = {"error": {"message": f"Incorrect API key provided: {SECRET}", "type": "invalid_request_error"}}
    said = {"messages": [{"role": "user", "content": f"my key is {SECRET}"}], "model": SECRET}
    with gateway(tmp_path, upstream.url, tokens=TOKENS) as running:
        headers = {"Authorization": f"Bearer {SECRET}", "X-PRX-Key": PROXY, "X-PRX-Session": SECRET}
        for body, script in (
            (said, lambda _seen: whole(completion(f"it is {SECRET}"))),
            (said, lambda _seen: whole(error, status=401)),
            (b"{" + SECRET.encode(), lambda _seen: whole({})),
        ):
            upstream.script = script
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            POOL.request("POST", f"{running.url}/chat/completions", body=data, headers=headers)
        POOL.request("GET", f"{running.url}/models?key={SECRET}", headers=headers)
    assert len(interactions(tmp_path)) == 4
    at_rest = every_byte(tmp_path)
    assert SECRET.encode() not in at_rest
    assert PROXY.encode() not in at_rest
    # Provider and client of this test log what they are asked.
    logged = [r.getMessage() for r in caplog.records if not r.name.startswith(("aiohttp", "urllib3"))]
    assert not [line for line in logged if SECRET in line or PROXY in line]


def test_no_key_is_at_rest_while_a_request_is_under_way_or_in_what_is_learned(
    tmp_path: Path, upstream: Provider
) -> None:
    system = f"You are an agent. The key of the parcel service is {SECRET}. Never tell it to anyone."
    said = [{"role": "system", "content": system}, {"role": "user", "content": "hi"}]
    body = json.dumps({"messages": said, "model": SECRET})
    with gateway(tmp_path, upstream.url, learn=LearnRules(units=2)) as running:
        at_rest: list[bytes] = []

        def script(_seen: Seen) -> Reply:
            at_rest.append(every_byte(tmp_path))
            return whole(completion())

        upstream.script = script
        for n in range(4):
            headers = {"X-PRX-Session": f"{SECRET}{n}", "X-PRX-Ref": SECRET}
            POOL.request("POST", f"{running.url}/chat/completions", body=body, headers=headers)
    at_rest.append(every_byte(tmp_path))
    assert len(at_rest) == 5
    assert not any(SECRET.encode() in one for one in at_rest)


def test_a_bind_that_others_can_reach_is_refused_without_keys(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.168.1.7", "example.org"):
        with pytest.raises(SettingsError, match="refusing to listen"):
            check(GatewayRules(upstream="https://api.example.org/v1", home=tmp_path, host=host))
    check(GatewayRules(upstream="https://api.example.org/v1", home=tmp_path, host="0.0.0.0", tokens=TOKENS))
    for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
        check(GatewayRules(upstream="https://api.example.org/v1", home=tmp_path, host=host))


@pytest.mark.parametrize(
    "upstream", ["", "api.openai.com", "ftp://x/v1", "https://", "https://u:p@x/v1", "https://x/v1?k=1"]
)
def test_an_upstream_that_is_no_base_url_is_refused(tmp_path: Path, upstream: str) -> None:
    with pytest.raises(SettingsError):
        check(GatewayRules(upstream=upstream, home=tmp_path))


@pytest.mark.parametrize(
    "line", ["a proxy", f"a proxy {PROXY}", f"a fly {digest('x')}", f"a proxy {digest('')}"]
)
def test_a_token_file_that_is_wrong_names_the_line_and_not_its_text(line: str) -> None:
    with pytest.raises(SettingsError, match="line 2") as caught:
        parse_tokens(f"# first\n{line}\n", "tokens")
    assert PROXY not in str(caught.value)


def test_absurd_headers_neither_stop_nor_confuse_the_gateway(running: Running, upstream: Provider) -> None:
    odd = {
        "X-PRX-Session": "\u00e9" * 50,
        "X-PRX-Env": "a\tb",
        "X-Stainless-Retry-Count": "9" * 500,
        "Content-Type": "",
        "X-Long": "y" * 7_000,
    }
    url = f"{running.url}/chat/completions"
    answer = POOL.request("POST", url, body=json.dumps(CHAT), headers={k: v.encode() for k, v in odd.items()})
    assert answer.status == 200
    assert len(interactions(running.home)) == 1
    too_long = POOL.request("POST", url, body=json.dumps(CHAT), headers={"X-Long": "y" * 200_000})
    assert too_long.status in (400, 431)
    assert len(upstream.seen) == 1


def test_without_a_key_nothing_is_read_recorded_or_passed_on(tmp_path: Path, upstream: Provider) -> None:
    with gateway(tmp_path, upstream.url, tokens=TOKENS, max_body=1000) as running:
        for body in (json.dumps(CHAT).encode(), b"{", b"x" * 5000):
            answer = POOL.request("POST", f"{running.url}/chat/completions", body=body)
            assert answer.status == 401
    assert spooled(tmp_path) == []
    assert not upstream.seen


def test_a_gateway_logs_each_request_as_json_without_what_it_said(tmp_path: Path, upstream: Provider) -> None:
    command = [sys.executable, "-m", "prx.cli", "serve", "--upstream", upstream.url, "--home", str(tmp_path)]
    command += ["--port", "0", "--no-evolution", "--log-format", "json", "--log-level", "info"]
    env = {**os.environ, "PRX_CONFIG": ""}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().decode().split()[2]
        said = {"model": "m", "messages": [{"role": "user", "content": "a private question"}]}
        headers = {"authorization": f"Bearer {SECRET}", "x-prx-session": "s-1"}
        answer = POOL.request("POST", f"{url}/chat/completions", json=said, headers=headers)
        POOL.request("POST", f"{url}/chat/completions", body=b"{", headers=headers)
        process.terminate()
        lines = process.stderr.read().decode()
    assert "private" not in lines
    assert SECRET not in lines
    first = next(one for one in map(json.loads, lines.splitlines()) if one["message"] == "request")
    assert first["record"] == answer.headers["x-prx-record"]
    assert (first["session"], first["agent"], first["kind"], first["status"]) == (
        "s-1",
        "default",
        "chat",
        200,
    )
    assert 0 <= first["own_ms"] <= first["ms"]


def test_the_metrics_tell_our_own_time_apart_from_the_wait_for_the_provider(tmp_path: Path) -> None:
    with (
        provider(lambda _seen: whole(completion(), delay=0.3)) as slow,
        gateway(tmp_path, slow.url) as running,
    ):
        for _ in range(3):
            POOL.request("POST", f"{running.url}/chat/completions", json=CHAT)
        text = POOL.request("GET", f"{running.url.removesuffix('/v1')}/metrics").data.decode()
    told = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(told["prx_gateway_overhead_seconds_count"]) == 3
    waited = float(told["prx_gateway_upstream_first_byte_seconds_sum"])
    assert waited > 0.8
    assert float(told["prx_gateway_overhead_seconds_sum"]) < waited / 2
    assert {"prx_spool_segments", "prx_spool_oldest_waiting_seconds", "prx_gateway_loop_lag_seconds"} <= set(
        told
    )
