"""Which conversation a request belongs to, from what it carries (SPEC section 4)."""

import hashlib
import re
import secrets
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import msgspec

from prx.domain.errors import InvalidInput
from prx.domain.names import bounded
from prx.domain.records import DEFAULT_AGENT
from prx.gateway.answers import Said
from prx.gateway.views import Body
from prx.gateway.wire import Headers
from prx.live.shapes import get, text_of

# Headers in which known clients name the conversation, in order of precedence.
CLIENT_HEADERS = (
    b"x-openwebui-chat-id",
    b"x-librechat-conversation-id",
    b"x-claude-code-session-id",
    b"x-opencode-session",
    b"session_id",
    b"session-id",
    b"conversation_id",
    b"x-session-id",
    b"x-conversation-id",
    b"x-litellm-session-id",
    b"helicone-session-id",
    b"langfuse_session_id",
)
_OWN_HEADER = b"x-prx-session"
AGENT_PATTERN = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_AGENT = re.compile(AGENT_PATTERN)
_AMBIGUOUS = ""


class Identity(msgspec.Struct, frozen=True):
    """`session_id` None: a conversation of its own. `named`: the client said which conversation it is, so
    that it can be a unit. `how`: by which rule it was found."""

    session_id: str | None
    named: bool
    how: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the headers say to us, read once. `coded`: how the body is encoded, empty when it is not;
    `attempt`: which retry of the client's this is."""

    session: str | None = None
    client_session: str | None = None
    agent: str | None = None
    ref: str | None = None
    user: str | None = None
    tenant: str | None = None
    channel: str | None = None
    env: str | None = None
    key: str | None = None
    coded: str = ""
    attempt: int = 0


_OWN = {
    b"x-prx-agent": "agent",
    b"x-prx-ref": "ref",
    b"x-prx-user": "user",
    b"x-prx-tenant": "tenant",
    b"x-prx-channel": "channel",
    b"x-prx-env": "env",
    b"x-prx-key": "key",
    b"content-encoding": "coded",
}


def asked(headers: Headers) -> Asked:
    """What the request's headers say to us."""
    found: dict[str, str] = {}
    client: dict[bytes, str] = {}
    attempt = 0
    for name, value in headers:
        if name == _OWN_HEADER:
            found["session"] = _bounded(value)
        elif name in _OWN and value:
            found[_OWN[name]] = _bounded(value)
        elif name in _CLIENT_PLACE and value:
            client[name] = _bounded(value)
        elif name == b"x-stainless-retry-count" and value.isdigit():
            attempt = min(int(value[:4]), 1000)
    if client:
        found["client_session"] = client[min(client, key=_CLIENT_PLACE.__getitem__)]
    return Asked(**found, attempt=attempt)


_CLIENT_PLACE = {name: place for place, name in enumerate(CLIENT_HEADERS)}


def agent_of(path_agent: str | None, header_agent: str | None) -> str:
    """The agent that a request is for; the path wins. Raises: InvalidInput for a name that is none."""
    name = path_agent or header_agent or DEFAULT_AGENT
    if not _AGENT.fullmatch(name):
        raise InvalidInput(
            "an agent's name has 1 to 64 letters, digits, dots, dashes and underscores and starts with a "
            "letter or digit; correct the path /a/NAME/v1 or the header X-PRX-Agent"
        )
    return name


class Continuations:
    """Recognises what was served before by keyed hashes; holds no text, and forgets the oldest.

    A hash that more than one session was served is ambiguous and names none of them.
    """

    def __init__(self, *, key: bytes | None = None, kept: int = 65_536) -> None:
        self._keyed = hashlib.blake2b(key=key or secrets.token_bytes(32), digest_size=16)
        self._sessions: OrderedDict[bytes, str] = OrderedDict()
        self._kept = kept

    def remember(self, owner: str, session_id: str, said: Said, last_user: str) -> None:
        """Note what was served to `session_id` of the API key or caller `owner`."""
        for call_id in said.call_ids:
            self._put(self._hash(owner, "call", call_id), session_id)
        if said.response_id:
            self._put(self._hash(owner, "response", said.response_id), session_id)
        if said.text:
            self._put(self._hash(owner, "turn", last_user, said.text), session_id)
            self._put(self._hash(owner, "text", said.text), session_id)

    def by_response(self, owner: str, response_id: str) -> str | None:
        """The session that was served this response of the responses endpoint."""
        return self._sessions.get(self._hash(owner, "response", response_id)) or None

    def by_messages(self, owner: str, messages: Any) -> str | None:
        """The session whose assistant message or tool call the request repeats, newest first."""
        if not isinstance(messages, list):
            return None
        for hashes in self._evidence(owner, messages):
            for one in hashes:
                session = self._sessions.get(one)
                if session:
                    return session
        return None

    def _evidence(self, owner: str, messages: list[Any]) -> Iterator[list[bytes]]:
        for place in range(len(messages) - 1, -1, -1):
            message = messages[place]
            if not isinstance(message, dict):
                continue
            call_id = message.get("tool_call_id") or message.get("call_id")
            if isinstance(call_id, str):
                yield [self._hash(owner, "call", call_id)]
            if message.get("role") != "assistant":
                continue
            calls = message.get("tool_calls")
            if isinstance(calls, list):
                yield [
                    self._hash(owner, "call", c["id"])
                    for c in calls
                    if isinstance(c, dict) and isinstance(c.get("id"), str)
                ]
            text = _assistant_text(message.get("content"))
            if text:
                before = last_user(messages[:place])
                yield [self._hash(owner, "turn", before, text), self._hash(owner, "text", text)]

    def _put(self, key: bytes, session_id: str) -> None:
        known = self._sessions.get(key)
        self._sessions[key] = session_id if known in (None, session_id) else _AMBIGUOUS
        self._sessions.move_to_end(key)
        if len(self._sessions) > self._kept:
            self._sessions.popitem(last=False)

    def _hash(self, *parts: str) -> bytes:
        digest = self._keyed.copy()
        # The lengths in front keep different parts from running into equal bytes.
        text = ",".join([str(len(part)) for part in parts]) + ":" + "".join(parts)
        digest.update(text.encode("utf-8", "surrogatepass"))
        return digest.digest()


def identify(ours: Asked, view: Body | None, known: Continuations, owner: str) -> Identity:
    """The conversation of a request, by the first rule that gives one."""
    if ours.session:
        return Identity(ours.session, True, "header")
    if ours.client_session:
        return Identity(ours.client_session, True, "client_header")
    if view is None:
        return Identity(None, False, "none")
    told = get(view.metadata, "session_id") if isinstance(view.metadata, dict) else None
    if isinstance(told, str) and told:
        return Identity(bounded(told), True, "metadata")
    previous = view.previous_response_id
    if isinstance(previous, str) and previous:
        session = known.by_response(owner, previous)
        if session:
            return Identity(session, False, "previous_response")
    messages = view.messages if view.messages is not None else view.input
    session = known.by_messages(owner, messages)
    return Identity(session, False, "continuation") if session else Identity(None, False, "none")


def last_user(messages: Any) -> str:
    """What the user said last in messages as they came over the wire."""
    if isinstance(messages, str):
        return messages
    for message in reversed(messages) if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("role") == "user":
            content = message.get("content")
            return content if isinstance(content, str) else text_of(content)
    return ""


def _assistant_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(t for part in content if isinstance(t := get(part, "text"), str))
    return ""


def _bounded(value: bytes) -> str:
    try:
        return bounded(value.decode("utf-8"))
    except UnicodeDecodeError:
        return bounded(value.decode("latin-1"))
