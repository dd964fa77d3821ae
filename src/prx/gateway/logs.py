"""What the gateway logs: one line per event, as text or as JSON, with credentials cut."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from prx.spool.redact import redact

_FIELDS = "prx"


class JsonLines(logging.Formatter):
    """One JSON object per line: `at`, `level`, `logger`, `message`, the event's own fields, `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        told: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        # Cut per value: what stands in the line is JSON whatever was cut.
        return json.dumps({key: _cut(value) for key, value in told.items()}, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """The same for people: time, level, message, fields."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The line; a traceback takes more than one."""
        fields = "".join(f" {key}={value}" for key, value in getattr(record, _FIELDS, {}).items())
        return redact(super().format(record) + fields)


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to what standard error is at that moment."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """Standard error."""
        return sys.stderr


def log_to_stderr(*, shape: str = "text", level: str = "warning") -> None:
    """Send what PRX logs in this process to standard error.

    Args: `shape`: text or json. `level`: debug, info (a line per request), warning or error.
    """
    handler = _StandardError()
    handler.setFormatter(JsonLines() if shape == "json" else TextLines())
    ours = logging.getLogger("prx")
    ours.handlers = [handler]
    ours.setLevel(level.upper())


def log_event(log: logging.Logger, level: int, message: str, **fields: Any) -> None:
    """Log an event with fields of its own."""
    log.log(level, message, extra={_FIELDS: fields})


def _cut(value: Any) -> Any:
    return redact(value) if isinstance(value, str) else value
