"""What an endpoint refuses to start with, and that the key never shows."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from prx.domain.errors import InvalidInput, ModelUnavailable
from prx.domain.records import Message
from prx.models.endpoint import ChatEndpoint, EndpointConfig, retry_after_s
from prx.models.fakes import ScriptedChat
from prx.models.port import ChatRequest
from prx.models.transport import Answer

NOW = datetime(2026, 12, 1, tzinfo=UTC)
ASK = ChatRequest(model="", messages=(Message(role="user", content="x"),))


class Recorder:
    def __init__(self, answers: list[Answer | Exception]) -> None:
        self.answers, self.bodies = answers, []

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        self.bodies.append((url, dict(headers), body))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


OK = Answer(200, {}, b'{"choices": [{"message": {"content": "yes"}}]}')


@pytest.mark.parametrize(
    ("base_url", "model", "key", "says"),
    [
        ("", "", "", r"no judge model is configured \(base_url and model missing\); there is no default"),
        ("https://h/v1", " ", "", "model missing"),
        ("ftp://h/v1", "m", "", "must begin with http"),
        ("/v1", "m", "", "must begin with http"),
        ("https://user:pw@h/v1", "m", "", "holds a credential"),
        ("https://h/v1", "m", "k\r\nX-Evil: 1", "no header can carry"),
    ],
)
def test_nothing_half_configured_starts(base_url: str, model: str, key: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as caught:
        ChatEndpoint(EndpointConfig(role="judge", base_url=base_url, model=model, key=key))
    assert "pw" not in str(caught.value)
    assert "X-Evil" not in str(caught.value)


def test_the_key_is_not_in_the_repr() -> None:
    assert "sk-1" not in repr(EndpointConfig(role="judge", base_url="https://h/v1", model="m", key="sk-1"))


def test_openai_is_sent_the_limit_under_its_own_name_and_no_key_means_no_header() -> None:
    transport = Recorder([OK])
    config = EndpointConfig(role="judge", base_url="https://api.openai.com/v1/", model="m")
    assert ChatEndpoint(config, transport=transport).complete(ASK).text == "yes"
    url, headers, body = transport.bodies[0]
    assert url == "https://api.openai.com/v1/chat/completions"
    assert "Authorization" not in headers
    assert b'"max_completion_tokens": 4096' in body


def test_an_unreachable_endpoint_is_tried_again_and_the_last_error_is_raised() -> None:
    waits: list[float] = []
    config = EndpointConfig(role="judge", base_url="http://h/v1", model="m", attempts=2)
    down = [ModelUnavailable("first"), OK]
    assert ChatEndpoint(config, transport=Recorder(down), sleep=waits.append).complete(ASK).text == "yes"
    assert waits == [0.5]
    down = [ModelUnavailable("first"), ModelUnavailable("second")]
    with pytest.raises(ModelUnavailable, match="second"):
        ChatEndpoint(config, transport=Recorder(down), sleep=waits.append).complete(ASK)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("12", 12.0),
        ("Tue, 01 Dec 2026 00:01:00 GMT", 60.0),
        ("Mon, 30 Nov 2026 00:00:00 GMT", 0.0),
        ("soon", None),
        ("-3", None),
    ],
)
def test_retry_after_is_read_in_both_forms(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, NOW) == seconds


def test_a_script_answers_in_order_and_says_when_it_is_used_up() -> None:
    model = ScriptedChat(["one", ModelUnavailable("down")])
    assert model.complete(ASK).text == "one"
    with pytest.raises(ModelUnavailable, match="down"):
        model.complete(ASK)
    with pytest.raises(ModelUnavailable, match="no line left"):
        model.complete(ASK)
    assert len(model.requests) == 3
