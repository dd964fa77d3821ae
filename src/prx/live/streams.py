"""Puts the pieces of a streamed answer together for the record; the app gets every piece unchanged."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from prx.live.calls import Call
from prx.live.shapes import get, tokens_of


class ChatPieces:
    """Collects the chunks of a chat completion."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._usage: Any = None
        self._model: str | None = None
        self._finish: str | None = None

    def add(self, chunk: Any) -> bool:
        """Take one chunk; whether it held the start or a part of the answer."""
        self._model = get(chunk, "model") or self._model
        self._usage = get(chunk, "usage") or self._usage
        choices = [c for c in get(chunk, "choices") or () if not get(c, "index")]
        if not choices:
            return False
        delta = get(choices[0], "delta")
        self._finish = get(choices[0], "finish_reason") or self._finish
        text = get(delta, "content") or get(delta, "refusal") or ""
        calls = get(delta, "tool_calls") or ()
        self._texts.append(text)
        for fragment in calls:
            self._add_call(fragment)
        return bool(text or calls)

    def tell(self, call: Call) -> bool:
        """Tell the call what arrived; whether the model said that it was done."""
        call.reply(
            text="".join(self._texts) if any(self._texts) else None,
            tokens=tokens_of(self._usage),
            tool_calls=[self._calls[index] for index in sorted(self._calls)],
            model=self._model,
            extra={"finish_reason": self._finish} if self._finish else None,
        )
        return self._finish is not None

    def _add_call(self, fragment: Any) -> None:
        index = get(fragment, "index") or 0
        call = self._calls.setdefault(index, {"name": "", "arguments": ""})
        function = get(fragment, "function")
        if get(fragment, "id"):
            call["call_id"] = get(fragment, "id")
        call["name"] += get(function, "name") or ""
        call["arguments"] += get(function, "arguments") or ""


class ResponsePieces:
    """Collects the events of the responses endpoint; the last one carries the whole answer."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._final: Any = None

    def add(self, event: Any) -> bool:
        """Take one event; whether it held a part of the answer."""
        kind = str(get(event, "type") or "")
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self._final = get(event, "response")
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            self._texts.append(get(event, "delta") or "")
            return True
        return kind.endswith(".delta")

    def tell(self, call: Call) -> bool:
        """Tell the call what arrived; whether the answer came to its end."""
        if self._final is not None:
            tell_response(call, self._final)
            return True
        call.reply(text="".join(self._texts) if self._texts else None)
        return False


Pieces = ChatPieces | ResponsePieces


class RecordedStream:
    """The client's iterator of chunks, watched: at its end, error or abandonment the call is recorded."""

    def __init__(self, chunks: Iterator[Any], call: Call, pieces: Pieces) -> None:
        self._chunks, self._watch = chunks, StreamWatch(call, pieces)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            chunk = next(self._chunks)
        except BaseException as error:
            self._watch.over(error)
            raise
        self._watch.saw(chunk)
        return chunk

    def stop(self) -> None:
        """Record the call as left by its reader, unless it had ended."""
        self._watch.over(GeneratorExit())

    def __del__(self) -> None:
        self.stop()


class RecordedAsyncStream:
    """The same for an asynchronous iterator."""

    def __init__(self, chunks: AsyncIterator[Any], call: Call, pieces: Pieces) -> None:
        self._chunks, self._watch = chunks, StreamWatch(call, pieces)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        try:
            chunk = await anext(self._chunks)
        except BaseException as error:
            self._watch.over(error)
            raise
        self._watch.saw(chunk)
        return chunk

    def stop(self) -> None:
        """Record the call as left by its reader, unless it had ended."""
        self._watch.over(GeneratorExit())

    def __del__(self) -> None:
        self.stop()


class StreamWatch:
    """What a stream has shown so far, and the one end of its call."""

    def __init__(self, call: Call, pieces: Pieces) -> None:
        self._call, self._pieces = call, pieces
        self._over = False

    def saw(self, chunk: Any) -> None:
        """Take a chunk that the app is about to get."""
        if self._call.watch("stream", lambda: self._pieces.add(chunk)):
            self._call.first_token()

    def over(self, error: BaseException) -> None:
        """The stream ended: by itself, by an error, or because nobody reads on."""
        if self._over:
            return
        self._over = True
        complete = self._call.watch("stream", lambda: self._pieces.tell(self._call))
        if isinstance(error, StopIteration | StopAsyncIteration):
            if not complete:
                self._call.fail("the stream ended before the model said that it was done", external=True)
            self._call.finish()
        elif complete and isinstance(error, GeneratorExit):
            self._call.finish()
        else:
            self._call.interrupted(error)


def tell_chat(call: Call, completion: Any) -> None:
    """Tell the call what a whole chat completion says."""
    choice = next(iter(get(completion, "choices") or ()), None)
    message, finish = get(choice, "message"), get(choice, "finish_reason")
    call.reply(
        text=get(message, "content") or get(message, "refusal"),
        tokens=tokens_of(get(completion, "usage")),
        tool_calls=get(message, "tool_calls") or (),
        model=get(completion, "model"),
        extra={"finish_reason": finish} if finish else None,
    )


def tell_response(call: Call, response: Any) -> None:
    """Tell the call what a whole answer of the responses endpoint says."""
    output = get(response, "output") or ()
    texts = [
        get(part, "text") or get(part, "refusal") or ""
        for item in output
        if get(item, "type") == "message"
        for part in get(item, "content") or ()
    ]
    status = get(response, "status")
    call.reply(
        text="".join(texts) if texts else None,
        tokens=tokens_of(get(response, "usage")),
        tool_calls=[item for item in output if get(item, "type") in ("function_call", "custom_tool_call")],
        model=get(response, "model"),
        extra={"finish_reason": status} if status else None,
    )
    if status == "failed":
        call.fail(str(get(get(response, "error"), "message") or "the response failed"), external=True)
