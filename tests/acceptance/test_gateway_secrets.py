"""What a gateway leaves on the disk holds no secret, and nobody but the provider is ever spoken to."""

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import urllib3
from chat_server import chunk, completion, response
from client_house import stored
from gateway_house import Provider, Reply, Seen, events, every_byte, provider, served, stream, whole

POOL = urllib3.PoolManager(retries=False)
# What a credential of each kind looks like; all made up.
KEYS = {
    "openai": "sk-proj-Q1w2E3r4T5y6U7i8O9p0AsDfGhJkLz",
    "anthropic": "sk-ant-api03-Zx9Yw8Vu7Ts6Rq5Po4Nm3Lk2Ji1Hg0",
    "aws": "AKIAQ7W3E5R9T1Y2U4I6",
    "google": "AIzaSyQ1w2E3r4T5y6U7i8O9p0AsDfGhJkLzXc4",
    "github": "ghp_Q1w2E3r4T5y6U7i8O9p0AsDfGhJkLzXcVbNm",
    "slack": "xoxb-1234567890-ZxCvBnMqWeRtYuIoP",
    "stripe": "sk_live_Q1w2E3r4T5y6U7i8O9p0AsDf",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJRMXcyRTNyNCJ9.Q1w2E3r4T5y6U7i8O9p0",
    "npm": "npm_Q1w2E3r4T5y6U7i8O9p0AsDfGhJkLzXcVbNm",
}
# What stands at places that are never recorded may look like anything.
PLAIN = {name: f"canary-{name}-7f3a9c" for name in ("authorization", "api-key", "cookie", "header", "query")}


def spoken(kind: str) -> str:
    return f"my {kind} key is {KEYS[kind]}, thanks"


def script(seen: Seen) -> Reply:
    """An answer that repeats secrets: in texts, in tool calls, in fragments of a stream, in errors."""
    if "/files/" in seen.path:
        return Reply(KEYS["github"].encode(), headers={"Set-Cookie": f"s={PLAIN['cookie']}"})
    body = seen.json
    if body.get("model") == "broken":
        error = {"message": f"Incorrect API key provided: {KEYS['openai']}", "code": KEYS["stripe"]}
        return whole({"error": error}, status=401)
    if seen.path.endswith("/responses"):
        return whole(response(spoken("anthropic")))
    call = {"name": "login", "arguments": json.dumps({"key": KEYS["aws"], "url": "https://u:p4ss@h/x"})}
    if not body.get("stream"):
        return whole(completion(spoken("google"), tool_calls=[{"id": KEYS["npm"], "function": call}]))
    texts = re.findall(r".{1,5}", spoken("slack"))
    pieces = re.findall(r".{1,4}", call["arguments"])
    opened = {"index": 0, "id": "call_1", "function": {"name": "login", "arguments": ""}}
    deltas: list[dict[str, Any]] = [{"content": text} for text in texts] + [{"tool_calls": [opened]}]
    deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": one}}]} for one in pieces]
    return stream(events(*(chunk(delta) for delta in deltas), chunk({}, "tool_calls")))


def traffic(url: str) -> None:
    """Requests with a secret at every place that a request has."""
    base = url.removesuffix("/v1")
    headers = {
        "Authorization": f"Bearer {PLAIN['authorization']}",
        "Api-Key": PLAIN["api-key"],
        "Cookie": f"session={PLAIN['cookie']}",
        "X-Custom": PLAIN["header"],
        "X-PRX-Ref": f"ref-{KEYS['jwt']}",
        "X-PRX-User": KEYS["openai"],
        "X-PRX-Channel": KEYS["slack"],
    }
    system = f"You are the agent. Use {KEYS['github']} for the parcel service and never say it."
    result = json.dumps({"token": KEYS["jwt"], "password": "hunter2hunter2"})
    made = [{"id": "c", "function": {"name": "f", "arguments": result}}]
    said = [
        {"role": "system", "content": system},
        {"role": "user", "content": [{"type": "text", "text": spoken("openai")}]},
        {"role": "assistant", "content": None, "tool_calls": made},
        {"role": "tool", "tool_call_id": "c", "content": result},
        {"role": "user", "content": spoken("aws"), "name": KEYS["slack"]},
    ]
    chat = {"model": KEYS["anthropic"], "messages": said, "user": KEYS["google"]}
    asked = {"model": "m", "instructions": system, "input": spoken("stripe")}
    query = f"?key={PLAIN['query']}&q={quote(KEYS['openai'])}"
    sent: list[tuple[str, Any]] = [
        (f"/v1/chat/completions{query}", chat | more)
        for more in (
            {},
            {"stream": True},
            {"model": "broken"},
            {"metadata": {"session_id": KEYS["jwt"], "k": KEYS["npm"]}},
        )
    ]
    sent.append((f"/v1/responses{query}", asked | {"safety_identifier": KEYS["aws"]}))
    sent.append((f"/v1/files/{KEYS['github']}{query}", {}))
    sent.append((f"/a/{KEYS['npm']}/v1/chat/completions", {}))
    told = {"name": "note", "session": KEYS["jwt"], "source": KEYS["aws"], "id": KEYS["github"]}
    sent += [("/api/v1/feedback", told | {"value": v}) for v in (spoken("google"), KEYS["stripe"])]
    sent.append((f"/api/v1/sessions/{KEYS['jwt']}/end", {}))
    sent.append(("/v1/traces", exported()))
    headers["Content-Type"] = "application/json"
    for path, body in sent:
        POOL.request("POST", base + path, body=json.dumps(body), headers=headers)
    broken = b'{"model": "' + KEYS["slack"].encode()
    POOL.request("POST", f"{url}/chat/completions", body=broken, headers=headers)


def exported() -> dict[str, Any]:
    """A span of an OpenTelemetry exporter that holds secrets."""
    parts = [{"type": "text", "content": spoken("slack")}]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": parts}]),
        "session.id": KEYS["npm"],
    }
    span = {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": "b7ad6b7169203331",
        "name": "chat m",
        "startTimeUnixNano": "1790000000000000000",
        "endTimeUnixNano": "1790000001000000000",
        "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in attributes.items()],
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def hits(data: bytes) -> list[str]:
    """Secrets that stand in the data, plainly, as part of an address, or cut in half."""
    found = []
    for secret in [*KEYS.values(), *PLAIN.values(), "hunter2hunter2", "p4ss"]:
        forms = {secret, quote(secret, safe=""), secret.lower(), secret[: len(secret) * 3 // 4]}
        found += [form for form in forms if form.encode() in data or form.encode() in data.lower()]
    return found


@pytest.fixture
def upstream() -> Iterator[Provider]:
    with provider(script) as one:
        yield one


def test_no_secret_is_in_any_file_that_the_processes_wrote_not_even_after_a_crash(
    tmp_path: Path, upstream: Provider
) -> None:
    home = tmp_path / "home"
    with served(home, upstream.url, "--port", "0", log=tmp_path / "log") as (process, url):
        traffic(url)
        # One more is under way when the process dies: its journal stays behind.
        upstream.script = lambda _seen: Reply(b"{}", delay=60)
        held = urllib3.PoolManager(retries=False)
        body = json.dumps({"model": KEYS["openai"], "messages": []})
        ref = {"X-PRX-Ref": KEYS["aws"]}
        with pytest.raises(urllib3.exceptions.HTTPError):
            held.request("POST", f"{url}/chat/completions", body=body, headers=ref, timeout=1)
        process.send_signal(signal.SIGKILL)
        process.wait()
    upstream.script = script
    with served(home, upstream.url, log=tmp_path / "log2") as (process, url):
        traffic(url)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    traces = stored(home)
    assert sum(len(trace.interactions) for trace in traces) >= 16
    assert hits(repr(traces).encode()) == []
    assert b"redacted" in every_byte(home)
    assert hits(every_byte(home)) == []
    assert hits((tmp_path / "log").read_bytes() + (tmp_path / "log2").read_bytes()) == []


@pytest.mark.full
def test_no_secret_is_in_a_postgresql_store(
    tmp_path: Path, upstream: Provider, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    monkeypatch.setenv("PRX__STORE__URL", postgres_url)
    with served(tmp_path / "home", upstream.url) as (process, url):
        traffic(url)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    traces = stored(tmp_path / "home", PRX__STORE__URL=postgres_url)
    assert sum(len(trace.interactions) for trace in traces) >= 8
    dump = b""
    with psycopg.connect(postgres_url) as connection:
        tables = connection.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables "
            "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        for (table,) in tables:
            for (row,) in connection.execute(f"SELECT t::text FROM {table} t").fetchall():
                # Bytes stand there as hexadecimal digits.
                plain = re.sub(r"\\\\x([0-9a-f]+)", lambda m: bytes.fromhex(m[1]).decode("latin-1"), row)
                dump += row.encode() + plain.encode("utf-8", "replace")
    assert b"redacted" in dump
    assert hits(dump) == []


@pytest.mark.parametrize("where", ["request", "error", "path"])
def test_a_secret_on_the_edge_of_what_is_recorded_is_not_left_there_in_half(
    tmp_path: Path, where: str
) -> None:
    from gateway_house import gateway

    key = KEYS["openai"]
    edges = {"request": 131_072, "error": 490, "path": 512}
    with provider(lambda _seen: whole({"error": {"message": ""}}, status=400)) as one:
        with gateway(tmp_path, one.url) as running:
            for before in range(2, len(key), 3):
                pad = "x " * ((edges[where] - before) // 2) + "y" * ((edges[where] - before) % 2)
                if where == "path":
                    pad = "/v1/" + "a/" * ((508 - before) // 2)
                    POOL.request("GET", running.url.removesuffix("/v1") + pad + key)
                    continue
                text = pad + key + " z" * (150_000 if where == "request" else 10)
                said = text if where == "request" else "hi"
                answer = {"error": {"message": text if where == "error" else "no"}}
                one.script = lambda _seen, a=answer: whole(a, status=400)
                body = json.dumps({"model": "m", "messages": [{"role": "user", "content": said}]})
                POOL.request("POST", f"{running.url}/chat/completions", body=body)
    assert key[:12].encode() not in every_byte(tmp_path)
    assert key[-12:].encode() not in every_byte(tmp_path)


HOOK = """
import os, sys

def tell(event, args):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.bind"):
        place = args[1] if event != "socket.getaddrinfo" else args[:2]
        os.write(out, f"{event} {place!r}\\n".encode())

out = os.open(os.environ["PRX_TEST_SOCKETS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
sys.addaudithook(tell)
"""


def test_no_socket_is_opened_but_to_the_provider(
    tmp_path: Path, upstream: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(HOOK)
    told = tmp_path / "sockets"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hook"))
    monkeypatch.setenv("PRX_TEST_SOCKETS", str(told))
    # With its worker, which does what is due at once.
    with served(tmp_path / "home", upstream.url, "--port", "0") as (process, url):
        traffic(url)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    seen = told.read_text().splitlines()
    address = "('127.0.0.1', " + upstream.url.split(":")[2].split("/")[0] + ")"
    assert {line for line in seen if not line.startswith("socket.bind")} == {f"socket.connect {address}"}
    assert {line for line in seen if line.startswith("socket.bind")} == {"socket.bind ('127.0.0.1', 0)"}


@pytest.mark.full
def test_the_kernel_sees_no_connection_but_to_the_provider(tmp_path: Path, upstream: Provider) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    out = tmp_path / "calls"
    under = (strace, "-f", "-qq", "-e", "trace=connect,sendto,sendmsg,sendmmsg", "-o", str(out))
    with served(tmp_path / "home", upstream.url, "--port", "0", under=under) as (process, url):
        traffic(url)
        # The signal goes to the gateway, whose end ends strace.
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True
        )
        for child in children.stdout.split():
            subprocess.run(["kill", "-TERM", child], check=True)
        assert process.wait(60) == 0
    port = upstream.url.split(":")[2].split("/")[0]
    named = [line for line in out.read_text().splitlines() if "sa_family=" in line]
    assert named
    allowed = f'sin_port=htons({port}), sin_addr=inet_addr("127.0.0.1")'
    # Sockets of the machine itself, as of its name service, lead nowhere else.
    others = [line for line in named if allowed not in line and "AF_UNIX" not in line]
    assert others == []


def test_nothing_is_loaded_from_the_network_at_import(tmp_path: Path) -> None:
    program = """
import sys
def refuse(event, args):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"):
        raise SystemExit(f"{event} {args}")
sys.addaudithook(refuse)
import prx, prx.cli.program, prx.gateway.opening, prx.wiring.app
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
