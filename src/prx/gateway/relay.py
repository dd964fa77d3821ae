"""Asks the provider and gives its answer on, telling the call of the exchange what passed."""

import time
from typing import Any

import aiohttp
from yarl import URL

from prx.gateway.answers import StreamAnswer, stream_answer, tell_error, tell_whole
from prx.gateway.attempts import Attempts, deadline
from prx.gateway.exchange import Exchange
from prx.gateway.metrics import Metrics
from prx.gateway.policy import Policy, Target
from prx.gateway.replies import error_line, openai_error, send_json
from prx.gateway.rules import GatewayRules
from prx.gateway.sse import Event, EventReader
from prx.gateway.straight import Answered
from prx.gateway.upstream import Upstream, url_of
from prx.gateway.views import Kind, inflated, with_usage
from prx.gateway.wire import Headers, sent_on

_Place = tuple[str, URL, Headers]
_ERROR_HEAD = 65_536
_BROKEN = (aiohttp.ClientError, TimeoutError, OSError)


class Relay:
    """Asks providers. What they answer passes untouched, but for the usage chunk that only we asked for."""

    def __init__(self, rules: GatewayRules, upstream: Upstream, metrics: Metrics) -> None:
        self._rules, self._upstream, self._metrics = rules, upstream, metrics
        self._policy = rules.policy or Policy()
        self._no_usage: set[Target] = set()

    async def forward(self, exchange: Exchange, body: bytes) -> None:
        """Ask the provider, and answer the client with what it says."""
        began = time.perf_counter()
        try:
            answer, asked_usage = await self._ask(exchange, body)
        except _BROKEN as error:
            exchange.waited += time.perf_counter() - began
            _note_attempts(exchange)
            await self._no_answer(exchange, error)
            return
        wait = time.perf_counter() - began
        exchange.waited += wait
        _note_attempts(exchange)
        self._metrics.first_byte.observe(wait * 1000.0)
        try:
            inference = exchange.kind in (Kind.CHAT, Kind.RESPONSES)
            streams = answer.headers.get("Content-Type", "").startswith("text/event-stream")
            coded = streams and "Content-Encoding" in answer.headers
            if inference and streams and answer.status < 400 and not coded:
                await self._stream(exchange, answer, hide_usage=asked_usage)
            elif exchange.kind is Kind.OTHER or coded:
                await self._pass_on(exchange, answer)
            else:
                await self._whole(exchange, answer)
        finally:
            # One that was read to its end has given its connection back already.
            answer.close()

    async def _ask(self, exchange: Exchange, body: bytes) -> tuple[Answered, bool]:
        """The provider's answer, and whether it was asked for usage on our own account."""
        view, scope = exchange.view, exchange.scope
        target, streaming = exchange.target, exchange.streaming
        headers = sent_on(scope["headers"], streaming=streaming, authorization=target.authorization)
        place = (scope["method"], url_of(target.url, exchange.path, scope["query_string"]), headers)
        own = streaming and exchange.kind is Kind.CHAT and self._rules.ask_usage
        if not own or view is None or view.wants_usage or exchange.ours.coded or target in self._no_usage:
            return await self._tried(exchange, place, body), False
        asking = with_usage(body, view)
        answer = await self._tried(exchange, place, asking)
        if asking is body:
            return answer, False
        if answer.status != 400:
            return answer, True
        said = await answer.read()
        if b"stream_options" not in said and b"include_usage" not in said:
            return answer, True
        # This provider does not know stream options: ask as the client did, now and from here on.
        self._no_usage.add(target)
        return await self._tried(exchange, place, body), False

    async def _tried(self, exchange: Exchange, place: _Place, body: bytes) -> Answered:
        """The provider's answer, after as many tries as policy and client allow."""
        policy = self._policy
        if exchange.kind is Kind.OTHER or policy.retries == 0:
            return await self._upstream.send(*place, body)
        if exchange.attempts is None:
            until = deadline(exchange.scope["headers"], time.monotonic())
            exchange.attempts = Attempts(policy.retries, until, policy.retry_wait)
        return await exchange.attempts.ask(lambda: self._upstream.send(*place, body))

    async def _whole(self, exchange: Exchange, answer: Answered) -> None:
        began = time.perf_counter()
        try:
            body, whole = await _read(answer, self._rules.recorded_bytes)
        except _BROKEN as error:
            exchange.waited += time.perf_counter() - began
            await self._no_answer(exchange, error)
            return
        exchange.waited += time.perf_counter() - began
        if not whole:
            # Too large to be recorded, so it need not be held either.
            await self._pass_on(exchange, answer, body)
            return
        if exchange.call is not None:
            exchange.call.watch("answer", lambda: self._tell_whole(exchange, answer, body))
        exchange.finish()
        await exchange.start(answer.status, answer.raw_headers, length=True, wait=True)
        await exchange.body(body)

    def _tell_whole(self, exchange: Exchange, answer: Answered, body: bytes) -> None:
        call, limit = exchange.call, self._rules.recorded_bytes
        assert call is not None
        coding = answer.headers.get("Content-Encoding")
        plain = inflated(body, coding, limit) if len(body) <= limit else None
        if answer.status >= 400:
            tell_error(call, answer.status, plain or b"")
        elif answer.status >= 300 or plain is None:
            call.reply(extra={"status": answer.status, "answer_bytes": len(body)})
        else:
            exchange.told(tell_whole(call, exchange.kind, plain))

    async def _stream(self, exchange: Exchange, answer: Answered, *, hide_usage: bool) -> None:
        reader, told = EventReader(), stream_answer(exchange.kind, hide_usage=hide_usage)
        call, content = exchange.call, answer.content
        # What has arrived already follows at once.
        here = content.total_bytes > 0
        await exchange.start(answer.status, answer.raw_headers, length=False, wait=here)
        broken: Exception | None = None
        try:
            while True:
                began = time.perf_counter()
                try:
                    piece = await content.readany()
                except _BROKEN as error:
                    broken, piece = error, b""
                exchange.waited += time.perf_counter() - began
                events = reader.feed(piece) if piece else reader.close()
                out = _shown(events, told) if hide_usage else piece
                if not hide_usage:
                    for event in events:
                        told.take(event)
                if told.began and call is not None:
                    call.first_token()
                if told.over or not piece:
                    # The record comes before the client can see the end.
                    _end(exchange, told, broken)
                if not piece:
                    break
                if out:
                    await exchange.body(out, more=True)
        except BaseException:
            _tell(exchange, told, broken=True)
            if told.complete:
                # Whoever left had the whole answer.
                exchange.finish()
            raise
        if broken is not None and not told.over:
            out += error_line("the provider's stream broke off", "upstream_error")
        await exchange.body(out)

    async def _pass_on(self, exchange: Exchange, answer: Answered, read: bytes = b"") -> None:
        """Pass bytes through as they come, after those that were `read`; the record holds their number."""
        await exchange.start(answer.status, answer.raw_headers, length=True, wait=False)
        size, head, announced = len(read), read[:_ERROR_HEAD], answer.content_length
        if read:
            await exchange.body(read, more=True)
        del read
        while True:
            began = time.perf_counter()
            try:
                piece = await answer.content.readany()
            except _BROKEN as error:
                if exchange.call is not None:
                    exchange.call.fail(f"the answer broke off: {type(error).__name__}", external=True)
                exchange.finish()
                await exchange.break_off()
                return
            exchange.waited += time.perf_counter() - began
            size += len(piece)
            if answer.status >= 400 and len(head) < _ERROR_HEAD:
                head += piece
            if not piece or size == announced:
                # The record comes before the client can see the end.
                self._tell_passed(exchange, answer, size, head)
                exchange.finish()
            await exchange.body(piece, more=bool(piece))
            if not piece:
                return

    def _tell_passed(self, exchange: Exchange, answer: Answered, size: int, head: bytes) -> None:
        call = exchange.call
        if call is None or exchange.ended:
            return
        if answer.status >= 400:
            coding = answer.headers.get("Content-Encoding")
            tell_error(call, answer.status, inflated(head, coding, self._rules.recorded_bytes) or b"")
        else:
            call.reply(extra={"status": answer.status, "answer_bytes": size})

    async def _no_answer(self, exchange: Exchange, error: Exception) -> None:
        """The provider could not be reached, or left before it had said anything."""
        late = isinstance(error, TimeoutError)
        status, what = (504, "did not answer in time") if late else (502, "could not be reached")
        if exchange.call is not None:
            why = f"the provider {what}: {type(error).__name__}"
            exchange.call.fail(why, status=status, external=True)
        exchange.finish()
        code = "upstream_timeout" if late else "upstream_unreachable"
        body = openai_error(status, f"the provider {what}; the request was recorded", code)
        exchange.begun, exchange.status = True, status
        await send_json(exchange.send, status, body, tuple(exchange.headers()))


async def _read(answer: Answered, limit: int) -> tuple[bytes, bool]:
    """The answer, or what came of it once that was more than `limit` bytes; whether it is all."""
    if answer.content_length is not None and answer.content_length <= limit:
        return await answer.read(), True
    pieces, size = list[bytes](), 0
    while size <= limit:
        piece = await answer.content.readany()
        if not piece:
            return b"".join(pieces), True
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces), False


async def say_cut(exchange: Exchange) -> None:
    """Tell the client that the gateway is going down: as an error of the stream, or as an answer."""
    message = "the gateway is shutting down; send the request again"
    if exchange.begun:
        await exchange.body(error_line(message, "shutdown") if exchange.streaming else b"")
        return
    exchange.begun, exchange.status = True, 503
    await send_json(exchange.send, 503, openai_error(503, message, "shutdown"), tuple(exchange.headers()))


def _note_attempts(exchange: Exchange) -> None:
    if exchange.attempts is not None and exchange.attempts.count > 1 and exchange.call is not None:
        exchange.call.note(attempts=exchange.attempts.count)


def _shown(events: list[Event], told: StreamAnswer) -> bytes:
    return b"".join([event.raw for event in events if told.take(event)])


def _end(exchange: Exchange, told: StreamAnswer, broken: Exception | None) -> None:
    if exchange.ended:
        return
    _tell(exchange, told, broken=broken is not None)
    if broken is not None and not told.over and exchange.call is not None:
        exchange.call.fail(f"the stream broke off: {type(broken).__name__}", external=True)
    exchange.finish()


def _tell(exchange: Exchange, told: StreamAnswer, *, broken: bool) -> None:
    call = exchange.call
    if call is None or exchange.ended:
        return
    said: Any = call.watch("stream", lambda: told.tell(call, broken=broken))
    if said is not None:
        exchange.told(said)
