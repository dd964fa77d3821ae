"""A language model behind an OpenAI-compatible endpoint."""

import email.utils
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec
import urllib3

from prx.domain.errors import InvalidInput, ModelUnavailable
from prx.domain.times import show_time, utc_now
from prx.models.port import ChatReply, ChatRequest
from prx.models.pricing import DEFAULT_OUTPUT_TOKENS, Price
from prx.models.transport import Answer, Http, Transport, pause, where
from prx.models.wire import decode_reply, encode_request

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_SHOWN = 200
_OPENAI = "api.openai.com"


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """Where a model is and how long to try.

    `key` may be empty for an endpoint that wants none; it never shows in `repr` or in an error.
    `attempts` counts the first try too. `max_wait_s`: longest pause between attempts; an endpoint whose
    Retry-After asks for more is left alone until the work is next due. `price` None: not known.
    """

    role: str
    base_url: str
    model: str
    key: str = field(default="", repr=False)
    connect_s: float = 10.0
    deadline_s: float = 120.0
    attempts: int = 3
    first_wait_s: float = 0.5
    max_wait_s: float = 30.0
    max_bytes: int = 4_000_000
    price: Price | None = None


class ChatEndpoint:
    """ChatModel over HTTP. Raises: InvalidInput at construction when something needed is not configured."""

    def __init__(
        self,
        config: EndpointConfig,
        *,
        transport: Transport | None = None,
        sleep: Callable[[float], None] = pause,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._config = _checked(config)
        self._url = f"{config.base_url.strip().rstrip('/')}/chat/completions"
        self._sleep, self._clock = sleep, clock
        self._transport = transport or Http(config.connect_s, config.deadline_s, config.max_bytes)

    @property
    def name(self) -> str:
        """Model name as configured."""
        return self._config.model

    @property
    def price(self) -> Price | None:
        """Price per million tokens, None when not known."""
        return self._config.price

    def complete(self, request: ChatRequest) -> ChatReply:
        """One completion. Raises: ModelUnavailable after at most `attempts` tries."""
        if request.max_tokens is None:
            request = msgspec.structs.replace(request, max_tokens=DEFAULT_OUTPUT_TOKENS)
        host = urllib3.util.parse_url(self._url).host
        limit_field = "max_completion_tokens" if host == _OPENAI else "max_tokens"
        body = encode_request(request, model=self.name, limit_field=limit_field)
        started = time.perf_counter()
        answer = self._answered(body)
        latency_ms = (time.perf_counter() - started) * 1000
        reply = decode_reply(answer.body, latency_ms=latency_ms, asked=request.model or self.name)
        cost = None if self.price is None else self.price.cost(reply.tokens)
        return msgspec.structs.replace(reply, cost_usd=cost)

    def _answered(self, body: bytes) -> Answer:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._config.key:
            headers["Authorization"] = f"Bearer {self._config.key}"
        for attempt in range(1, self._config.attempts + 1):
            last = attempt == self._config.attempts
            try:
                answer = self._transport.post(self._url, headers, body)
            except ModelUnavailable:
                if last:
                    raise
                self._sleep(self._wait_s(attempt, None))
                continue
            if 200 <= answer.status < 300:
                return answer
            if answer.status not in _RETRIED or last:
                raise self._refused(answer)
            wait_s = self._wait_s(attempt, answer.headers.get("retry-after"))
            if wait_s > self._config.max_wait_s:
                raise self._refused(answer)
            self._sleep(wait_s)
        raise AssertionError("attempts is at least 1")

    def _wait_s(self, attempt: int, retry_after: str | None) -> float:
        asked = retry_after_s(retry_after, self._clock())
        if asked is not None:
            return asked
        return float(min(self._config.first_wait_s * 2 ** (attempt - 1), self._config.max_wait_s))

    def _refused(self, answer: Answer) -> ModelUnavailable:
        role, status = self._config.role, answer.status
        at = f"the {role} model at {where(self._url)} answered {status}"
        if status in {401, 403}:
            return ModelUnavailable(
                f"{at}: the key is refused; set [self_evolution.models.{role}] key and try again"
            )
        if status == 404:
            return ModelUnavailable(
                f"{at}: no such path or model; check base_url (it usually ends in /v1) "
                f"and model {self.name!r}"
            )
        if 300 <= status < 400:
            return ModelUnavailable(
                f"{at}: a redirect, which is never followed; set base_url to the final address"
            )
        if status == 429:
            asked = answer.headers.get("retry-after")
            hint = f", asks to wait {scrub(asked, self._config.key)} s" if asked else ""
            return ModelUnavailable(
                f"{at}: too many requests{hint}; it is tried again when the work is next due, "
                f"at {show_time(self._clock())} it was given up"
            )
        said = scrub(answer.body[: 4 * _SHOWN].decode("utf-8", "replace"), self._config.key)
        return ModelUnavailable(f"{at}: {said or 'no text'}; nothing was decided, check the endpoint")


def scrub(text: str, key: str) -> str:
    """`text` on one printable line of at most 200 characters, without `key`."""
    if key:
        text = text.replace(key, "[key]")
    line = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(line.split())[:_SHOWN]


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """Seconds of a Retry-After header, a number or an HTTP date (RFC 9110 10.2.3); None when unreadable."""
    if value is None:
        return None
    if value.strip().isdigit():
        return float(value.strip())
    try:
        at = email.utils.parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return max(0.0, (at - now).total_seconds())


def _checked(config: EndpointConfig) -> EndpointConfig:
    section = f"[self_evolution.models.{config.role}]"
    missing = [name for name in ("base_url", "model") if not getattr(config, name).strip()]
    if missing:
        raise InvalidInput(
            f"no {config.role} model is configured ({' and '.join(missing)} missing); there is no default: "
            f"set {section} base_url, model and key, until then PRX records and analyses only"
        )
    try:
        parsed = urllib3.util.parse_url(config.base_url.strip())
    except urllib3.exceptions.LocationParseError as error:
        raise InvalidInput(f"{section} base_url is no address; write it like https://host/v1") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise InvalidInput(f"{section} base_url must begin with http:// or https:// and name a host")
    if parsed.auth is not None:
        raise InvalidInput(f"{section} base_url holds a credential; move it to key")
    if any(not c.isprintable() or not c.isascii() for c in config.key):
        raise InvalidInput(f"{section} key holds a line break or another character no header can carry")
    if min(config.connect_s, config.deadline_s) <= 0 or config.attempts < 1 or config.max_bytes < 1:
        raise InvalidInput(f"{section}: timeouts, attempts and max_bytes must be above 0")
    return config
