"""Server-sent events taken out of a byte stream, however it was cut into pieces.

Lines end in LF, CR or CRLF; an event ends at an empty line (WHATWG HTML, section 9.2.6). Bytes are kept as
they came: an event gives both what it says and the bytes that said it.
"""

from typing import NamedTuple

_LONGEST = 8 * 1024 * 1024


class Event(NamedTuple):
    """`raw`: the bytes up to and with the empty line; `data`: joined data lines, None without any."""

    raw: bytes
    data: bytes | None


class EventReader:
    """Give it bytes as they arrive, get whole events; `rest` is what has no end yet.

    An event above 8 MiB is given in pieces without data: it passes, but is not read.
    """

    __slots__ = ("_seen", "rest")

    def __init__(self) -> None:
        self.rest = b""
        self._seen = 0

    def feed(self, piece: bytes) -> list[Event]:
        """The events that ended within `piece`."""
        data = self.rest + piece if self.rest else piece
        events: list[Event] = []
        start = 0
        look = max(0, self._seen - 3)
        while (end := _end_of_event(data, look)) >= 0:
            raw = data[start:end]
            events.append(Event(raw, _data_of(raw)))
            start = look = end
        self.rest = data[start:]
        if len(self.rest) > _LONGEST:
            events.append(Event(self.rest, None))
            self.rest = b""
        self._seen = len(self.rest)
        return events

    def close(self) -> list[Event]:
        """What is left at the end of the stream: an event whose empty line never came."""
        rest, self.rest, self._seen = self.rest, b"", 0
        return [Event(rest, _data_of(rest))] if rest else []


def _end_of_event(data: bytes, look: int) -> int:
    """Index after the next empty line at or after `look`; -1 when there is none yet."""
    lf = data.find(b"\n\n", look)
    if b"\r" not in data:
        return lf + 2 if lf >= 0 else -1
    found = [lf + 2] if lf >= 0 else []
    crlf = data.find(b"\n\r\n", look)
    if crlf >= 0:
        found.append(crlf + 3)
    cr = data.find(b"\r\r", look)
    if cr >= 0:
        # A lone CR may be half of a CRLF that is still under way; then its LF belongs to this event.
        after = cr + 2
        if after < len(data):
            found.append(after + (data[after : after + 1] == b"\n"))
    return min(found, default=-1)


def _data_of(raw: bytes) -> bytes | None:
    if raw.startswith(b"data: ") and raw.endswith(b"\n\n") and raw.find(b"\n") == len(raw) - 2:
        line = raw[6:-2]
        return line if b"\r" not in line else line.rstrip(b"\r")
    lines = []
    for line in raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"):
        if line.startswith(b"data:"):
            value = line[5:]
            lines.append(value.removeprefix(b" "))
        elif line == b"data":
            lines.append(b"")
    return b"\n".join(lines) if lines else None
