"""What was told about a conversation over HTTP, as the store gives it back."""

import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import urllib3
from client_house import stored
from gateway_house import Provider, Running, eventually, gateway

from prx.domain.records import Trace
from prx.fitness.signals import read_signals
from prx.gateway.tokenfile import TokenFile
from prx.gateway.tokens import parse_tokens

POOL = urllib3.PoolManager(retries=False)
SCOPES = ("proxy", "ingest", "read", "approve", "admin")
TOKENS = {scope: f"{scope}-token-0123456789" for scope in SCOPES}
LINES = "\n".join(f"{s} {s} {sha256(token.encode()).hexdigest()}" for s, token in TOKENS.items())


def chat(running: Running, **headers: str) -> Any:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
    given = {k.replace("_", "-"): v for k, v in headers.items()}
    return POOL.request("POST", f"{running.url}/chat/completions", body=body, headers=given)


def tell(running: Running, **body: Any) -> Any:
    url = running.url.removesuffix("/v1") + "/api/v1/feedback"
    answer = POOL.request("POST", url, body=json.dumps({"name": "thumb", "value": "up"} | body))
    assert answer.status == 202, answer.data
    return answer.json()


def end(running: Running, session: str) -> Any:
    place = urllib3.util.Url(path=f"/api/v1/sessions/{session}/end").request_uri
    return POOL.request("POST", running.url.removesuffix("/v1") + place)


def trace_of(running: Running, session: str) -> Trace:
    (trace,) = (one for one in stored(running.home) if one.start.session_id == session)
    return trace


def thumb(trace: Trace) -> float | None:
    return read_signals(trace).session_value("thumb")


def test_feedback_finds_its_session_by_session_record_and_ref_whenever_it_comes(running: Running) -> None:
    # The ref's and the session's feedback come before anything is known of them.
    tell(running, ref="order-9", value=1, id="by-ref")
    tell(running, session="s-1", value=1, id="by-session")
    answer = chat(running, X_PRX_Session="s-1", X_PRX_Ref="order-9")
    assert end(running, "s-1").status == 202
    tell(running, record=answer.headers["x-prx-record"], value=1, id="by-record")
    chat(running, X_PRX_Session="s-2")
    trace = trace_of(running, "s-1")
    assert {one.record_id for one in trace.feedback} == {
        f"feedback/by-{n}" for n in ("ref", "session", "record")
    }
    assert trace.ended_at is not None
    assert trace_of(running, "s-2").feedback == ()


def test_feedback_for_what_nobody_knows_waits_in_the_store_and_touches_no_session(running: Running) -> None:
    tell(running, ref="never-seen", id="waits")
    chat(running, X_PRX_Session="s-1", X_PRX_Ref="other")
    assert trace_of(running, "s-1").feedback == ()
    chat(running, X_PRX_Session="s-1", X_PRX_Ref="never-seen")
    assert [one.record_id for one in trace_of(running, "s-1").feedback] == ["feedback/waits"]


def test_the_latest_value_wins_and_the_ones_before_are_kept(running: Running) -> None:
    chat(running, X_PRX_Session="s-1")
    now = datetime.now(UTC)
    for value, hours in ((1, -3), (0, -1), (1, -2)):
        tell(running, session="s-1", value=value, at=(now + timedelta(hours=hours)).isoformat())
    trace = trace_of(running, "s-1")
    assert [one.value for one in sorted(trace.feedback, key=lambda f: f.at)] == [1.0, 1.0, 0.0]
    assert thumb(trace) == 0.0


def test_the_same_id_again_changes_nothing_even_with_another_value(running: Running) -> None:
    chat(running, X_PRX_Session="s-1")
    for value in (1, 0, 1):
        assert tell(running, session="s-1", value=value, id="f-1") == {"id": "f-1", "accepted": True}
    trace = trace_of(running, "s-1")
    assert [(one.record_id, one.value) for one in trace.feedback] == [("feedback/f-1", 1.0)]
    assert thumb(trace) == 1.0


@pytest.mark.parametrize(
    "name", ["x" * 300, "y" * 5_000, "café 你好", "with/slash", "a b?c#d%e", "sk-" + "a1" * 20]
)
def test_a_name_of_any_kind_is_the_same_in_a_header_in_feedback_and_at_the_end(
    running: Running, name: str
) -> None:
    chat(running, X_PRX_Session=name.encode().decode("latin-1"), X_PRX_Ref=name.encode().decode("latin-1"))
    tell(running, session=name, id="a")
    tell(running, ref=name, id="b")
    assert end(running, name.replace("%", "%25").replace("?", "%3F").replace("#", "%23")).status == 202
    (trace,) = stored(running.home)
    assert [one.record_id for one in trace.feedback] == ["feedback/a", "feedback/b"]
    assert trace.ended_at is not None


IMPOSSIBLE = ["1969-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"]


@pytest.mark.parametrize("at", [*IMPOSSIBLE, "2999-01-01T00:00:00Z"])
def test_a_time_that_cannot_be_is_refused_before_it_reaches_the_store(running: Running, at: str) -> None:
    url = running.url.removesuffix("/v1") + "/api/v1/feedback"
    body = {"name": "thumb", "value": 1, "session": "s", "at": at}
    answer = POOL.request("POST", url, body=json.dumps(body))
    assert (answer.status, answer.json()["error"]["details"]) == (422, {"field": "at"})


ENDPOINTS = [
    ("POST", "/v1/chat/completions", {"messages": []}, "proxy"),
    ("GET", "/v1/models", None, "proxy"),
    ("POST", "/a/shop/v1/responses", {"input": "hi"}, "proxy"),
    ("POST", "/api/v1/feedback", {"name": "thumb", "value": 1, "session": "s"}, "ingest"),
    ("POST", "/api/v1/sessions/s/end", None, "ingest"),
    ("GET", "/metrics", None, "read"),
]


NO_TOKENS = [{}, {"Authorization": "Bearer "}, {"Authorization": "Basic eDp5"}, {"X-PRX-Key": "no"}]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_each_scope_opens_what_is_its_own_and_admin_everything(
    tmp_path: Path, upstream: Provider, endpoint: tuple[str, str, Any, str]
) -> None:
    method, path, body, needs = endpoint
    opened, codes = set(), set()
    with gateway(tmp_path, upstream.url, tokens=parse_tokens(LINES, "tokens")) as running:
        url = running.url.removesuffix("/v1") + path
        data = None if body is None else json.dumps(body)
        for scope, token in TOKENS.items():
            where = {"X-PRX-Key": token} if needs == "proxy" else {"Authorization": f"Bearer {token}"}
            answer = POOL.request(method, url, body=data, headers=where)
            if answer.status < 400:
                opened.add(scope)
            else:
                codes.add((answer.status, answer.json()["error"]["code"]))
        for headers in (
            {},
            {"Authorization": "Bearer "},
            {"Authorization": "Basic eDp5"},
            {"X-PRX-Key": "no"},
        ):
            answer = POOL.request(method, url, body=data, headers=headers)
            assert answer.status == 401
            assert set(answer.json()["error"]) >= {"code", "message"}
    assert opened == {needs, "admin"}
    expected = {(401, "invalid_api_key")} if needs == "proxy" else {(403, "forbidden")}
    assert codes == expected
    assert len(upstream.seen) == (2 if needs == "proxy" else 0)


def test_one_token_may_have_several_scopes_and_no_others(tmp_path: Path, upstream: Provider) -> None:
    tokens = parse_tokens(f"app proxy,read {sha256(b'both-token-0123456789').hexdigest()}", "tokens")
    with gateway(tmp_path, upstream.url, tokens=tokens) as running:
        base = running.url.removesuffix("/v1")
        shown = {"Authorization": "Bearer both-token-0123456789", "X-PRX-Key": "both-token-0123456789"}
        assert chat(running, **shown).status == 200
        assert POOL.request("GET", f"{base}/metrics", headers=shown).status == 200
        assert POOL.request("POST", f"{base}/api/v1/sessions/s/end", headers=shown).status == 403


def test_a_token_is_revoked_within_a_second_by_removing_its_line(tmp_path: Path, upstream: Provider) -> None:
    file = tmp_path / "tokens"
    file.write_text(LINES)
    with gateway(tmp_path / "home", upstream.url, tokens=TokenFile(file)) as running:
        base = running.url.removesuffix("/v1")

        def status(scope: str) -> int:
            if scope == "proxy":
                return int(chat(running, X_PRX_Key=TOKENS[scope]).status)
            shown = {"Authorization": f"Bearer {TOKENS[scope]}"}
            return int(POOL.request("GET", f"{base}/metrics", headers=shown).status)

        assert (status("proxy"), status("read")) == (200, 200)
        file.write_text(LINES.replace("proxy proxy", "# proxy proxy"))
        eventually(lambda: status("proxy") == 401, 1.0)
        assert status("read") == 200
        # A file that is damaged or gone changes nothing, and the gateway says so.
        file.write_text("proxy proxy not-a-digest")
        health = eventually(lambda: POOL.request("GET", f"{base}/health").json()["problems"], 1.0)
        assert "tokens" in health[0]
        assert (status("proxy"), status("read")) == (401, 200)
        # No token left lets nobody in.
        file.write_text("")
        eventually(lambda: status("read") == 401, 1.0)
        assert status("proxy") == 401
        assert POOL.request("GET", f"{base}/health").json()["problems"] == []
        file.write_text(LINES)
        eventually(lambda: status("proxy") == 200, 1.0)


def test_no_answer_repeats_the_token_that_was_shown(tmp_path: Path, upstream: Provider) -> None:
    with gateway(tmp_path, upstream.url, tokens=parse_tokens(LINES, "tokens")) as running:
        for shown in (TOKENS["approve"], "unknown-token-0123456789"):
            headers = {"Authorization": f"Bearer {shown}", "X-PRX-Key": shown}
            for method, path, _body, _needs in ENDPOINTS:
                url = running.url.removesuffix("/v1") + path
                answer = POOL.request(method, url, headers=headers)
                assert answer.status in (401, 403)
                assert shown not in answer.data.decode() + str(dict(answer.headers))


def test_what_says_whether_it_lives_needs_no_token(tmp_path: Path, upstream: Provider) -> None:
    with gateway(tmp_path, upstream.url, tokens=parse_tokens(LINES, "tokens")) as running:
        for path in ("/livez", "/readyz", "/health", "/api/v1/openapi.json"):
            assert POOL.request("GET", running.url.removesuffix("/v1") + path).status == 200


@pytest.mark.parametrize(
    "case",
    [
        ("GET", "/api/v1/nothing", 404, "not_found"),
        ("GET", "/api/v1/feedback/", 404, "not_found"),
        ("GET", "/api/v1/feedback", 405, "method_not_allowed"),
        ("OPTIONS", "/api/v1/feedback", 405, "method_not_allowed"),
        ("DELETE", "/api/v1/sessions/s/end", 405, "method_not_allowed"),
        ("POST", "/api/v1/sessions//end", 422, "invalid_field"),
        ("POST", "/api/v1/sessions/s/end?agent=..", 422, "invalid_field"),
        ("POST", "/api/v1/sessions/s/end?agent=", 422, "invalid_field"),
        ("POST", "/metrics", 405, "method_not_allowed"),
        ("POST", "/api/v1/feedback", 400, "invalid_json"),
        ("GET", "/api/../v1/models", 404, "not_found"),
    ],
)
def test_every_error_of_our_own_endpoints_has_the_same_shape(
    running: Running, upstream: Provider, case: tuple[str, str, int, str]
) -> None:
    method, path, status, code = case
    import http.client

    connection = http.client.HTTPConnection(running.url.split("/")[2])
    connection.request(method, path, headers={"Host": "evil.example"})
    answer = connection.getresponse()
    error = json.loads(answer.read())["error"]
    connection.close()
    assert (answer.status, error["code"]) == (status, code)
    assert set(error) == {"code", "message", "details"}
    assert "evil.example" not in str(answer.getheaders())
    assert not upstream.seen
