import io
import json
import logging
from collections.abc import Iterator

import pytest

from prx.gateway.logs import JsonLines, TextLines, log_event

SECRET = "sk-proj-0123456789abcdefghijABCDEFGHIJ"


@pytest.fixture
def written() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    log, out = logging.getLogger("prx.test.logs"), io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonLines())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield log, out
    log.removeHandler(handler)


def test_an_event_is_one_line_of_json_with_its_own_fields(
    written: tuple[logging.Logger, io.StringIO],
) -> None:
    log, out = written
    log_event(log, logging.INFO, 'said "hi"\nand went', record="r-1", status=200, own_ms=0.5, nothing=None)
    log.warning("plain %s", "words")
    first, second = map(json.loads, out.getvalue().splitlines())
    assert first["at"].endswith("+00:00")
    assert {k: v for k, v in first.items() if k != "at"} == {
        "level": "info",
        "logger": "prx.test.logs",
        "message": 'said "hi"\nand went',
        "record": "r-1",
        "status": 200,
        "own_ms": 0.5,
        "nothing": None,
    }
    assert (second["message"], second["level"]) == ("plain words", "warning")


def test_no_line_holds_a_credential_and_each_stays_json(written: tuple[logging.Logger, io.StringIO]) -> None:
    log, out = written
    log_event(log, logging.ERROR, f"refused {SECRET}", ref=SECRET, header=f"Bearer {SECRET}", deep=[1])
    try:
        raise ValueError(f"password={SECRET}")
    except ValueError:
        log.exception("it failed")
    text = out.getvalue()
    assert SECRET not in text
    assert len([json.loads(line) for line in text.splitlines()]) == 2
    record = logging.LogRecord("prx", logging.ERROR, "f", 1, f"key {SECRET}", None, None)
    assert SECRET not in TextLines().format(record)
