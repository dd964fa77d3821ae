"""Recorded traffic of real providers, replayed by a test provider: what passes and what is recorded."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
import urllib3
from gateway_house import Reply, Seen, gateway, interactions, provider

from prx.domain.records import Interaction, Terminal

SAMPLE = Path(__file__).parents[1] / "data" / "wire" / "provider_traffic.jsonl"
ALL = Path(__file__).parents[3] / "shared" / "data" / "dev" / "provider_wire_traffic_dev.jsonl.gz"
PATHS = {"/v1/chat/completions": "chat", "/v1/responses": "responses", "/v1/embeddings": "embeddings"}
POOL = urllib3.PoolManager(retries=False)


def rows(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        pytest.skip("the shared data folder is not here; the sample in tests/data is replayed all the same")
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in text.decode("utf-8").splitlines()]


def wire(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else json.dumps(value, ensure_ascii=False).encode()


def path_of(row: dict[str, Any]) -> str:
    path = row["path"].split("#")[0]
    return path if path.startswith("/v1/") else "/v1" + path


def expected_chat(row: dict[str, Any]) -> tuple[str, int | None, list[str], bool]:
    """Text, input tokens, tool names and whether the model was done, read by this test's own means."""
    if not row["stream"]:
        body = row["response"]
        message = body["choices"][0]["message"]
        names = [call["function"]["name"] for call in message.get("tool_calls") or ()]
        return message.get("content") or "", (body.get("usage") or {}).get("prompt_tokens"), names, True
    text, tokens, names, done = "", None, [], False
    for line in row["response"].splitlines():
        if not line.startswith("data:") or line[5:].strip() == "[DONE]":
            continue
        chunk = json.loads(line[5:])
        tokens = (chunk.get("usage") or {}).get("prompt_tokens", tokens)
        for choice in chunk["choices"]:
            if choice["index"] == 0:
                text += choice["delta"].get("content") or ""
                calls = choice["delta"].get("tool_calls") or ()
                names += [c["function"]["name"] for c in calls if c.get("function", {}).get("name")]
                done |= choice.get("finish_reason") is not None
    return text, tokens, names, done


def expected_response(row: dict[str, Any]) -> tuple[str, int | None, list[str], bool]:
    final = row["response"] if not row["stream"] else None
    if final is None:
        for line in row["response"].splitlines():
            if line.startswith("data:") and '"response.completed"' in line:
                final = json.loads(line[5:])["response"]
    if final is None:
        return "", None, [], False
    text = "".join(
        part.get("text", "")
        for item in final["output"]
        if item["type"] == "message"
        for part in item["content"]
    )
    names = [item["name"] for item in final["output"] if item["type"] == "function_call"]
    return text, (final.get("usage") or {}).get("input_tokens"), names, True


def ours(record: Interaction) -> tuple[str, int | None, list[str], bool]:
    names = [call.name for call in record.tool_calls]
    return record.response or "", record.tokens.input, names, record.terminal is Terminal.COMPLETED


def dressed(body: bytes, lines: str) -> bytes:
    """The same stream as another provider would write it: with other ends of lines, with comments."""
    plain = body.replace(b"\r\n", b"\n")
    if lines == "comments":
        return b": \xe2\x98\x82 keep-alive\n\n" + plain.replace(b"\n\n", b"\n\n: keep-alive\n\n")
    return plain.replace(b"\n", {"crlf": b"\r\n", "cr": b"\r"}[lines]) if lines in ("crlf", "cr") else body


def pieces_of(body: bytes, rng: random.Random) -> list[bytes]:
    """The body in pieces that end anywhere, also within a character."""
    cuts = sorted(rng.randrange(1, len(body)) for _ in range(12))
    return [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True) if a < b]


@pytest.mark.parametrize(
    ("data", "ask_usage", "lines"),
    [
        (ALL, True, "as recorded"),
        (ALL, False, "as recorded"),
        (SAMPLE, True, "as recorded"),
        (SAMPLE, False, "crlf"),
        (SAMPLE, True, "crlf"),
        (SAMPLE, False, "cr"),
        (SAMPLE, False, "comments"),
    ],
)
def test_recorded_traffic_passes_byte_for_byte_and_is_recorded_as_it_was(
    tmp_path: Path, data: Path, ask_usage: bool, lines: str
) -> None:
    rng = random.Random(5)
    replayed = rows(data)
    current: dict[str, Any] = {}

    def answered() -> bytes:
        row = current["row"]
        body = wire(row["response"])
        return dressed(body, lines) if isinstance(row["response"], str) and row["stream"] else body

    def script(_seen: Seen) -> Reply:
        row, body = current["row"], answered()
        if not row["stream"] or isinstance(row["response"], list):
            return Reply(body, status=row["status"])
        return Reply(pieces_of(body, rng), headers={"Content-Type": "text/event-stream"})

    with provider(script) as upstream, gateway(tmp_path, upstream.url, ask_usage=ask_usage) as running:
        for row in replayed:
            current["row"] = row
            sent, path = wire(row["request"]), path_of(row)
            url = running.url.removesuffix("/v1") + path
            answer = POOL.request("POST", url, body=sent, headers={"Content-Type": "application/json"})
            got, seen = answer.data, upstream.seen[-1]
            options = (row["request"] or {}).get("stream_options") or {}
            chat = PATHS.get(path) == "chat" and row["request"].get("stream") is True
            added = ask_usage and chat and not options.get("include_usage")
            if added:
                assert seen.json == row["request"] | {"stream_options": options | {"include_usage": True}}
                assert b'"choices":[],"usage":{' not in got
                assert got in answered() or len(got) < len(answered())
            else:
                assert seen.body == sent, path
                assert got == answered(), path
            assert answer.status == row["status"]
        records = interactions(tmp_path)
        assert len(records) == len(replayed)
    for row, record in zip(replayed, records, strict=True):
        kind = PATHS.get(path_of(row))
        if row["status"] >= 400:
            assert record.terminal is Terminal.UPSTREAM_ERROR
        elif kind == "chat":
            assert ours(record) == expected_chat(row), row["source"]
            assert record.model == row["response"]["model"] if not row["stream"] else record.streamed
        elif kind == "responses":
            assert ours(record) == expected_response(row), row["source"]
        elif kind == "embeddings":
            assert record.tokens.input == row["response"]["usage"]["prompt_tokens"]
        else:
            assert record.extra["path"] == path_of(row)
