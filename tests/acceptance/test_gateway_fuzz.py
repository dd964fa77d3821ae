"""Whatever a client or a provider sends: no failure of the gateway, the same bytes, one record."""

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3
from chat_server import USAGE, chunk, completion, response
from client_house import stored
from gateway_house import Provider, Reply, Running, gateway, interactions, provider, whole
from hypothesis import example, given, settings
from hypothesis import strategies as st

POOL = urllib3.PoolManager(retries=False)
EXAMPLES = int(os.environ.get("PRX_FUZZ_EXAMPLES", "60"))
TEXT = st.text(max_size=12) | st.sampled_from(["", "\x00", "\ud800", "💥", "é" * 40, "{slot_1}", "\r\n\r\n"])
LEAF = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
KEYS = (
    "model messages input instructions stream stream_options include_usage tools user metadata session_id "
    "previous_response_id safety_identifier role content text type name tool_call_id tool_calls id function "
    "arguments choices delta index finish_reason usage prompt_tokens completion_tokens prompt_tokens_details "
    "cached_tokens output error message code status response call_id refusal output_tokens created object"
)
ANY = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS.split()) | TEXT, inner, max_size=6)
    ),
    max_leaves=25,
)
PATHS = st.sampled_from(["chat/completions", "responses", "embeddings", "completions", "audio/speech"])
GOOD = [
    completion(),
    response("Hi"),
    chunk({"content": "a"}),
    chunk({}, "stop"),
    {"choices": [], "usage": USAGE},
]


def spoiled(draw: st.DrawFn, value: Any) -> Any:
    """A good value with one of its parts exchanged for anything."""
    value = json.loads(json.dumps(value))
    place = value
    while isinstance(place, dict | list) and place:
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if draw(st.booleans()) or not isinstance(place[key], dict | list):
            place[key] = draw(ANY)
            break
        place = place[key]
    return value


def encoded(value: Any, ascii_only: bool = True) -> bytes:
    return json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")


def is_object(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body.decode("utf-8")), dict)
    except ValueError:
        return False


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """What a client may send: JSON of any shape, close to right or not, whole or not."""
    said = {"model": "m", "stream": draw(st.booleans()), "messages": [{"role": "user", "content": "hi"}]}
    made = draw(st.sampled_from(["near", "near", "any", "damaged", "bytes"]))
    if made == "bytes":
        return draw(st.binary(max_size=60))
    body = encoded(spoiled(draw, said) if made != "any" else draw(ANY), draw(st.booleans()))
    return body[: draw(st.integers(0, len(body)))] if made == "damaged" else body


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """What a provider may stream: events good and bad, lines of every end, cut anywhere."""
    end = draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    out = []
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.sampled_from(["good", "near", "any", "comment", "field", "bytes", "done", "error"]))
        if kind in ("good", "near"):
            value = draw(st.sampled_from(GOOD))
            value = value if kind == "good" else spoiled(draw, value)
            out.append(b"data: " + encoded(value, draw(st.booleans())) + end + end)
        elif kind == "any":
            out.append(b"data:" + encoded(draw(ANY)) + end + end)
        elif kind == "error":
            out.append(b"data: " + encoded({"error": draw(ANY)}) + end + end)
        elif kind == "done":
            out.append(b"data: [DONE]" + end + end)
        elif kind == "comment":
            out.append(b": " + draw(st.binary(max_size=9)).replace(b"\n", b"") + end)
        elif kind == "field":
            out.append(draw(st.sampled_from([b"event", b"id", b"retry", b"data", b""])) + b": x" + end)
        else:
            out.append(draw(st.binary(max_size=30)))
    data = b"".join(out)
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(data) - 1)), max_size=6)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b]


class Fuzzed:
    """A gateway and its provider, and how many records there are so far."""

    def __init__(self, running: Running, upstream: Provider, hides_usage: bool) -> None:
        self.running, self.upstream, self.hides_usage = running, upstream, hides_usage
        self._recorded = 0

    def ask(self, path: str, body: bytes, **headers: str) -> urllib3.BaseHTTPResponse:
        """Send a request; fails unless it was recorded exactly once."""
        self.upstream.seen.clear()
        given = {k.replace("_", "-"): v for k, v in headers.items()}
        url = f"{self.running.url}/{path}"
        before = self._recorded
        try:
            return POOL.request("POST", url, body=body, headers=given, timeout=20, decode_content=False)
        finally:
            self._recorded = self._records()
            assert self._recorded == before + 1

    def problems(self) -> list[str]:
        """What failed inside and was only counted."""
        url = self.running.url.removesuffix("/v1") + "/health"
        told: list[str] = POOL.request("GET", url).json()["problems"]
        return told

    def _records(self) -> int:
        text = POOL.request("GET", self.running.url.removesuffix("/v1") + "/metrics").data.decode()
        return sum(int(n) for n in re.findall(r"prx_gateway_requests_total\{[^}]*\} (\d+)", text))


@pytest.fixture(scope="module", params=[False, True], ids=["as sent", "asking usage"])
def fuzzed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    home = tmp_path_factory.mktemp("home")
    with provider(lambda _seen: whole(completion())) as upstream:
        with gateway(home, upstream.url, ask_usage=request.param) as running:
            one = Fuzzed(running, upstream, request.param)
            yield one
            assert one.problems() == []
            records = interactions(home)
            assert len({one.record_id for one in records}) == len(records) > EXAMPLES
    # What was recorded must not stop the store either.
    assert sum(len(trace.interactions) for trace in stored(home)) == len(records)


@settings(max_examples=EXAMPLES)
@given(path=PATHS, body=bodies())
def test_any_body_is_passed_on_as_it_is_or_refused_as_no_json(fuzzed: Fuzzed, path: str, body: bytes) -> None:
    fuzzed.upstream.script = lambda _seen: whole(completion())
    answer = fuzzed.ask(path, body)
    assert answer.status in (200, 400)
    if answer.status == 400:
        assert json.loads(answer.data)["error"]["code"] == "invalid_json"
        assert not is_object(body)
        assert not fuzzed.upstream.seen
        return
    (seen,) = fuzzed.upstream.seen
    if seen.body != body:
        assert path == "chat/completions"
        added = seen.json["stream_options"]["include_usage"]
        assert added is True
        rest = {k: v for k, v in seen.json.items() if k != "stream_options"}
        assert rest == {k: v for k, v in json.loads(body).items() if k != "stream_options"}


@settings(max_examples=EXAMPLES)
@given(path=PATHS, pieces=streams(), gone=st.booleans())
def test_any_stream_reaches_the_client_byte_for_byte(
    fuzzed: Fuzzed, path: str, pieces: list[bytes], gone: bool
) -> None:
    kind = {"Content-Type": "text/event-stream"}
    fuzzed.upstream.script = lambda _seen: Reply(pieces, headers=kind, abort=gone)
    body = encoded({"model": "m", "messages": [], "input": "x", "stream": True})
    try:
        got = fuzzed.ask(path, body).data
    except urllib3.exceptions.HTTPError:
        # A path that is only passed on breaks off as the provider's answer did.
        assert gone
        assert path in ("completions", "audio/speech", "embeddings")
        return
    sent = b"".join(pieces)
    if gone and path == "embeddings":
        # Its answers are whole ones; this one never was.
        assert b"upstream_unreachable" in got
        return
    hides = fuzzed.hides_usage and path == "chat/completions"
    if gone:
        got = got.split(b'data: {"error": {"message": "the provider\'s stream broke off"')[0]
    if not hides:
        assert got == sent or (gone and sent.startswith(got))
    elif not gone:
        # Of what we asked for on our own account only the usage event is missing.
        assert got == sent or (b'"usage"' in sent and len(got) < len(sent))


STATUSES = [200, 201, 204, 206, 304, 307, 400, 401, 404, 418, 429, 500, 503, 599]
KINDS = ["application/json", "text/html", "", "text/event-stream", "application/octet-stream"]
CODINGS = ["", "", "gzip", "br", "nonsense"]


@settings(max_examples=EXAMPLES)
@given(
    path=PATHS,
    head=st.tuples(st.sampled_from(STATUSES), st.sampled_from(KINDS), st.sampled_from(CODINGS)),
    value=st.one_of(st.binary(max_size=80), ANY.map(encoded), st.builds(encoded, st.sampled_from(GOOD))),
)
@example("chat/completions", (200, "application/json", ""), encoded({"error": {"code": [], "type": {}}}))
def test_any_answer_reaches_the_client_byte_for_byte(
    fuzzed: Fuzzed, path: str, head: tuple[int, str, str], value: bytes
) -> None:
    status, kind, coding = head
    headers = {"Content-Type": kind} | ({"Content-Encoding": coding} if coding else {})
    sent = b"" if status in (204, 304) else value
    fuzzed.upstream.script = lambda _seen: Reply(sent, status=status, headers=headers)
    answer = fuzzed.ask(path, encoded({"model": "m", "messages": [], "input": "x"}), X_PRX_Session="s")
    assert answer.status == status
    assert answer.data == sent
