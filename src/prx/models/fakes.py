"""A scripted model, shipped so that users test against it too."""

import threading
from collections.abc import Callable, Iterable

from prx.domain.errors import ModelUnavailable
from prx.models.port import ChatReply, ChatRequest

Line = str | ChatReply | Exception
Script = Iterable[Line] | Callable[[ChatRequest], Line]


class ScriptedChat:
    """Answers from a list in order, or from a function of the request; keeps every request.

    An exception in the script is raised. Raises: ModelUnavailable when a list is used up.
    """

    def __init__(self, script: Script, *, name: str = "scripted") -> None:
        self._answer = script if callable(script) else _in_order(iter(script), name)
        self._name = name
        self._lock = threading.Lock()
        self.requests: list[ChatRequest] = []

    @property
    def name(self) -> str:
        """The name given."""
        return self._name

    def complete(self, request: ChatRequest) -> ChatReply:
        """The next line of the script."""
        with self._lock:
            self.requests.append(request)
            line = self._answer(request)
        if isinstance(line, Exception):
            raise line
        return ChatReply(text=line, model=self._name, cost_usd=0.0) if isinstance(line, str) else line


def _in_order(lines: "Iterable[Line]", name: str) -> Callable[[ChatRequest], Line]:
    remaining = iter(lines)

    def answer(_: ChatRequest) -> Line:
        used_up = ModelUnavailable(f"the script of {name} has no line left; give it one more answer")
        return next(remaining, used_up)

    return answer
