"""A server on 127.0.0.1 that speaks as much of the OpenAI protocol as a test asks for."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 40},
    "completion_tokens_details": {"reasoning_tokens": 8},
}


def completion(content: str | None = "Hello!", **message: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o-2024-08-06",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls" if message else "stop",
                "message": {"role": "assistant", "content": content, **message},
            }
        ],
        "usage": USAGE,
    }


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-4o",
        "choices": choices,
    } | more


def response(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    call = {
        "id": "fc_1",
        "type": "function_call",
        "status": "completed",
        "call_id": "call_9",
        "name": "look_up",
        "arguments": '{"q":"x"}',
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "gpt-4o",
        "output": [message, call],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 50,
            "output_tokens": 10,
            "total_tokens": 60,
            "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 3},
        },
    }


@dataclass
class Answer:
    """What the next request gets: a JSON body, or `events` as a stream; `hold`: only once it is set."""

    body: dict[str, Any] = field(default_factory=completion)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    events: list[dict[str, Any] | str] | None = None
    hold: threading.Event | None = None


class ChatServer:
    """Gives the scripted answers in order, the last one for ever; keeps the requests."""

    def __init__(self) -> None:
        self.script: list[Answer] = [Answer()]
        self.requests: list[dict[str, Any]] = []
        self.arrived = threading.Event()
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def take(self, request: dict[str, Any]) -> Answer:
        with self._lock:
            self.requests.append(request)
            self.arrived.set()
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                answer = server.take(json.loads(self.rfile.read(size)))
                if answer.hold is not None:
                    answer.hold.wait(20)
                try:
                    self._answer(answer)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def _answer(self, answer: Answer) -> None:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if answer.events is None:
                    body = json.dumps(answer.body).encode()
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                    return
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                for event in answer.events:
                    data = event if isinstance(event, str) else json.dumps(event)
                    self.wfile.write(f"data: {data}\n\n".encode())
                    self.wfile.flush()
                self.close_connection = True

            def log_message(self, *arguments: object) -> None: ...

        return Handler


@contextmanager
def chat_server() -> Iterator[ChatServer]:
    server = ChatServer()
    try:
        yield server
    finally:
        server.close()
