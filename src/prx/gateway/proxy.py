"""Passes requests to the provider and answers to the client, and records each exactly once."""

import asyncio
import time
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from prx.domain.errors import InvalidInput
from prx.domain.records import Terminal
from prx.gateway.claims import caller_of
from prx.gateway.exchange import Exchange
from prx.gateway.identity import Asked, agent_of, asked, identify
from prx.gateway.metrics import Metrics
from prx.gateway.policy import AUTO
from prx.gateway.recorder import Recorder
from prx.gateway.relay import Relay, say_cut
from prx.gateway.replies import openai_error, send_json
from prx.gateway.rules import GatewayRules, KeyMode
from prx.gateway.shapes import wire_messages
from prx.gateway.tokens import Scope as TokenScope
from prx.gateway.tokens import Token, bearer
from prx.gateway.upstream import Upstream, checked_path
from prx.gateway.views import KIND_OF_PATH, Body, Kind, inflated, read_body, with_model
from prx.gateway.wire import Headers, Receive, Scope, Send, header
from prx.live.intent import classify
from prx.live.session import Session
from prx.live.shapes import cut, last_user_text

_WATCH_EVERY = 0.05
# Others are of no use to an API, and TRACE would show a client what the provider was sent: our key.
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_MOST_AGENTS = 200
_LONGEST_PATH = 512
_NO_MODEL = "model_not_found"
_BYTES_PER_TOKEN = 4
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Prompts(Protocol):
    """Puts the prompt to be served in the place of the client's, where one is managed."""

    def apply(self, session: Session, agent: str, user: str | None, view: Body, body: bytes) -> bytes:
        """The body to send; the same object when nothing changes. `view` follows the change."""
        ...


class Refused(Exception):
    """A request that never reaches the provider."""

    def __init__(self, status: int, message: str, code: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class ClientGone(Exception):
    """The client left before its request was complete: nothing was accepted."""


class Proxy:
    """The ASGI application behind every path that is not our own."""

    def __init__(
        self, rules: GatewayRules, recorder: Recorder, upstream: Upstream, metrics: Metrics, prompts: Prompts
    ) -> None:
        self._rules, self._recorder = rules, recorder
        self._metrics, self._prompts = metrics, prompts
        self._relay = Relay(rules, upstream, metrics)
        self._needs_key = rules.key_mode is KeyMode.GATEWAY or rules.tokens.any_for(TokenScope.PROXY)
        self._agents: set[str] = set()
        self.under_way: set[Exchange] = set()

    async def watch_clients(self) -> None:
        """Look for clients that go away; only requests that last get so far."""
        while True:
            await asyncio.sleep(_WATCH_EVERY)
            late = time.perf_counter() - _WATCH_EVERY
            for exchange in self.under_way:
                if exchange.watcher is None and exchange.started < late:
                    exchange.watcher = asyncio.create_task(self._gone(exchange))

    async def _gone(self, exchange: Exchange) -> None:
        """Once its client went away, cancel the request, or let it go on for the record."""
        message = await exchange.receive()
        if message["type"] != "http.disconnect" or exchange.ended or exchange.task is None:
            return
        if self._recorder.policy.continues(exchange.scope["path"]):
            if exchange.call is not None:
                exchange.call.note(client_left=True)
            return
        exchange.left = True
        exchange.task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; whatever fails, the client gets an answer and the record its end."""
        headers: Headers = scope["headers"]
        ours = asked(headers)
        try:
            caller = caller_of(headers, self._admit(headers, ours))
            self._has_room()
        except Refused as refused:
            # Not recorded: whoever has no key must not be able to fill the store.
            self._metrics.refused[refused.code] += 1
            await send_json(send, refused.status, openai_error(refused.status, str(refused), refused.code))
            return
        try:
            body = await _read(receive, headers, self._rules.max_body)
        except ClientGone:
            return
        except Refused as refused:
            await self._refuse(scope, send, refused, b"", ours)
            return
        started = time.perf_counter()
        try:
            exchange = self._exchange(
                scope, receive, send, ours=ours, body=body, started=started, caller=caller
            )
        except Refused as refused:
            await self._refuse(scope, send, refused, body, ours)
            return
        self.under_way.add(exchange)
        try:
            await self._serve(exchange, body)
        finally:
            self.under_way.discard(exchange)
            exchange.finish(Terminal.SHUTDOWN_CUT)
            exchange.release()

    def cut(self) -> int:
        """End every request under way as cut by the shutdown; returns how many."""
        for exchange in self.under_way:
            exchange.cut = True
            if exchange.task is not None:
                exchange.task.cancel()
        return len(self.under_way)

    def _admit(self, headers: Headers, ours: Asked) -> Token | None:
        """The token that was shown; None where none is asked for."""
        if not self._needs_key:
            if not self._rules.tokens.any_for(TokenScope.PROXY):
                return None
            # From now on, also once the last such token was revoked.
            self._needs_key = True
        if self._rules.key_mode is KeyMode.GATEWAY:
            shown, where = bearer(header(headers, b"authorization")), "Authorization: Bearer"
        else:
            shown, where = ours.key, "X-PRX-Key"
        token = self._rules.tokens.find(shown)
        if token is None or not token.may(TokenScope.PROXY):
            raise Refused(401, f"this gateway needs a token with scope proxy in {where}", "invalid_api_key")
        return token

    def _has_room(self) -> None:
        if self._recorder.spool.refuses:
            message = "this gateway serves no call that it cannot record, and its spool is full; ask later"
            raise Refused(503, message, "spool_full")

    def _exchange(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        ours: Asked,
        body: bytes,
        started: float,
        caller: str,
    ) -> Exchange:
        headers: Headers = scope["headers"]
        if scope["method"] not in _METHODS:
            raise Refused(405, f"the method {scope['method'][:20]} is not passed on", "method_not_allowed")
        try:
            path_agent, path, posted = _place(scope.get("raw_path") or scope["path"].encode())
            agent = agent_of(path_agent, ours.agent)
        except InvalidInput as error:
            raise Refused(400, str(error), "invalid_path") from None
        if agent not in self._agents:
            if len(self._agents) >= _MOST_AGENTS:
                # Each agent is read from the ledger again and again: names must not come without end.
                raise Refused(400, f"more than {_MOST_AGENTS} agents were named", "too_many_agents")
            self._agents.add(agent)
        kind = posted if scope["method"] == "POST" else Kind.OTHER
        view = None if kind is Kind.OTHER else self._view(ours, body)
        if view is not None and view.model == AUTO and (ours.coded or not self._recorder.policy.auto_model):
            raise Refused(
                404, f"{AUTO} needs models in the gateway's configuration, and a plain body", _NO_MODEL
            )
        return Exchange(
            recorder=self._recorder,
            metrics=self._metrics,
            scope=scope,
            receive=receive,
            send=send,
            path=path,
            kind=kind,
            agent=agent,
            # Of clients that share a token, each is still known by its own key.
            owner=f"{caller}\0{caller_of(headers, None)}\0{agent}",
            caller=caller,
            ours=ours,
            view=view,
            target=self._recorder.default,
            started=started,
            task=asyncio.current_task(),
        )

    def _view(self, ours: Asked, body: bytes) -> Body | None:
        """None for a body too large to be recorded. Raises: Refused when it is no JSON object."""
        limit = self._rules.recorded_bytes
        if len(body) > limit:
            return None
        plain = inflated(body, ours.coded, limit)
        if plain is None:
            return None
        try:
            return read_body(plain)
        except _UNREADABLE as error:
            raise Refused(400, f"the request body is not a JSON object: {error}", "invalid_json") from None

    def _accept(self, exchange: Exchange, body: bytes) -> bytes:
        """Put the request into its session, give it its prompt, open its record; the body to send."""
        view, ours, recorder = exchange.view, exchange.ours, self._recorder
        identity = identify(ours, view, recorder.continuations, exchange.owner)
        embeds = exchange.kind is Kind.EMBEDDINGS
        if exchange.kind is Kind.OTHER or (embeds and not identity.named):
            passed: dict[str, Any] = {"path": cut(exchange.path.decode("latin-1"), _LONGEST_PATH)}
            passed["method"] = exchange.scope["method"]
            session = recorder.sessions.passed_on(exchange.agent)
            if view is not None:
                body = self._directed(exchange, None, view, body)
            exchange.accept(session, messages=_embedded(view), extra=passed)
            return body
        user = ours.user or (view.user_named if view is not None else None)
        session = recorder.sessions.session(exchange.agent, identity, ours, user, caller=exchange.caller)
        exchange.named = identity.named
        extra: dict[str, Any] = {"session_from": identity.how}
        if ours.attempt:
            extra["client_retry"] = ours.attempt
        if view is None:
            extra["body_bytes"] = len(body)
        elif not embeds and not ours.coded:
            body = self._prompts.apply(session, exchange.agent, user, view, body)
        if view is not None:
            body = self._directed(exchange, session, view, body)
        said = _embedded(view) if embeds else () if view is None else view.said
        exchange.accept(session, messages=said, extra=extra)
        return body

    def _directed(self, exchange: Exchange, session: Session | None, view: Body, body: bytes) -> bytes:
        """Choose the model where the client leaves it to us, and the provider of the model; the body."""
        policy, model = self._recorder.policy, view.model
        if model == AUTO:
            model = policy.auto_model
            if session is not None:
                said = wire_messages(view.said)
                tool_result = bool(said) and said[-1].role == "tool"
                intent = classify(last_user_text(said), tools=view.has_tools, tool_result=tool_result)
                tokens = len(body) // _BYTES_PER_TOKEN
                model = session.route(intent, default=model, models=policy.candidates, tokens=tokens)
            body, view.model = with_model(body, AUTO, model), model
        if isinstance(model, str):
            exchange.target = policy.target(model) or self._recorder.default
        return body

    def _accept_bare(self, exchange: Exchange, body: bytes) -> bytes:
        """The record of a request that could not be read as it should: it is served and counted."""
        if exchange.call is None:
            if exchange.view is not None:
                body = self._directed(exchange, None, exchange.view, body)
            session = self._recorder.sessions.passed_on(exchange.agent)
            exchange.accept(session, messages=(), extra={"body_bytes": len(body)})
        return body

    async def _serve(self, exchange: Exchange, body: bytes) -> None:
        faults = self._recorder.runtime.faults
        self._recorder.hold()
        try:
            sent = faults.guard("gateway", lambda: self._accept(exchange, body), None)
            if sent is None:
                sent = faults.guard("gateway bare", lambda: self._accept_bare(exchange, body), body)
        finally:
            self._recorder.write_held()
        try:
            await self._relay.forward(exchange, sent)
        except asyncio.CancelledError:
            if exchange.left:
                exchange.finish(Terminal.CLIENT_CANCELLED)
                return
            exchange.finish(Terminal.SHUTDOWN_CUT)
            if not exchange.cut:
                raise
            await say_cut(exchange)
        except Exception as error:
            if exchange.call is not None and not exchange.ended:
                exchange.call.fail(f"the gateway failed: {type(error).__name__}", external=True)
            exchange.finish()
            if exchange.begun:
                raise
            self._recorder.runtime.faults.note("relay", error)
            body = openai_error(500, "the gateway failed; the request was recorded", "gateway_error")
            exchange.status = 500
            await send_json(exchange.send, 500, body, tuple(exchange.headers()))

    async def _refuse(self, scope: Scope, send: Send, refused: Refused, body: bytes, ours: Asked) -> None:
        """Answer a request that cannot be passed on, and record that it was made."""
        self._metrics.refused[refused.code] += 1

        def record() -> str:
            session = self._recorder.sessions.passed_on("default")
            call = session.call(ref=ours.ref, intent="refused")
            call.note(
                path=cut(str(scope["path"]), _LONGEST_PATH), method=scope["method"], body_bytes=len(body)
            )
            call.fail(f"refused: {refused.code}", status=refused.status, external=True)
            call.finish()
            return call.id

        record_id = self._recorder.runtime.faults.guard("refusal", record, "")
        headers: Headers = [(b"x-prx-record", record_id.encode())] if record_id else []
        if refused.status == 405:
            headers.append((b"allow", ", ".join(sorted(_METHODS)).encode()))
        await send_json(
            send, refused.status, openai_error(refused.status, str(refused), refused.code), tuple(headers)
        )


async def _read(receive: Receive, headers: Headers, limit: int) -> bytes:
    """The whole body of a request. Raises: ClientGone, Refused."""
    length = header(headers, b"content-length")
    if length is not None and length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    body: bytes = message.get("body", b"")
    if not message.get("more_body") and len(body) <= limit:
        return body
    pieces, size = [body], len(body)
    if size > limit:
        raise _too_large(limit)
    while message.get("more_body"):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > limit:
            raise _too_large(limit)
    return b"".join(pieces)


def _too_large(limit: int) -> Refused:
    return Refused(413, f"the request body is larger than {limit} bytes", "request_too_large")


@lru_cache(maxsize=256)
def _place(raw: bytes) -> tuple[str | None, bytes, Kind]:
    """Agent, if the path names one, path below it, and what a POST there asks for. Raises: InvalidInput."""
    path, agent = checked_path(raw), None
    if path.startswith(b"/a/"):
        name, slash, rest = path[3:].partition(b"/")
        agent, path = name.decode("latin-1"), slash + rest
    kind = KIND_OF_PATH.get(path[3:].decode("latin-1"), Kind.OTHER) if path[:4] == b"/v1/" else Kind.OTHER
    return agent, path, kind


def _embedded(view: Body | None) -> Any:
    """What was embedded, where it is text."""
    if view is None:
        return ()
    texts = [view.input] if isinstance(view.input, str) else view.input
    if not isinstance(texts, list):
        return ()
    return [{"role": "user", "content": text} for text in texts if isinstance(text, str)]
