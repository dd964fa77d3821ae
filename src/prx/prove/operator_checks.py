"""The operator's own checks: programs run without a shell, bounded in time and output."""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from datetime import datetime
from typing import IO

from prx.domain.answers import Answer, Broken, Failed, NotEnoughData, Passed
from prx.domain.codec import encode
from prx.domain.plaintext import quoted
from prx.domain.proposals import ProofStep, Proposal
from prx.prove.rules import OperatorCheck
from prx.prove.steps import proof_step

_KEPT_BYTES = 16_384
_SHOWN = 200
_CHUNK = 65_536


def run_checks(
    checks: Iterable[OperatorCheck], proposal: Proposal, texts: dict[str, str], now: datetime
) -> tuple[ProofStep, ...]:
    """One step per check. Each program reads on its standard input one JSON object: `proposal`, and
    `texts` (prompt name to text after the change)."""
    payload = encode({"proposal": proposal, "texts": texts})
    steps = []
    for check in checks:
        answer, said = _run(check, payload)
        numbers = {"required": check.required, "timeout_s": check.timeout_s, "said": said}
        steps.append(proof_step(f"check.{check.name}", answer, now, numbers=numbers))
    return tuple(steps)


def _run(check: OperatorCheck, payload: bytes) -> tuple[Answer, str]:
    with tempfile.TemporaryFile() as given:
        given.write(payload)
        given.seek(0)
        try:
            # an own session, so that a timeout reaches the children too
            process = subprocess.Popen(
                list(check.command),
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError, IndexError) as error:
            return Broken(f"check {check.name} could not start ({error}); correct its command"), ""
        kept = bytearray()
        assert process.stdout is not None
        reader = threading.Thread(target=_drain, args=(process.stdout, kept), daemon=True)
        reader.start()
        try:
            code = process.wait(timeout=check.timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end_group(process)
            reader.join(1.0)
    said = quoted(bytes(kept).decode("utf-8", "replace"), _SHOWN)
    return _answer(check, code, said), said


def _answer(check: OperatorCheck, code: int | None, said: str) -> Answer:
    tail = f": {said}" if said else ""
    if code is None:
        return Broken(f"check {check.name} did not end within {check.timeout_s:g} s and was killed{tail}")
    if code == 0:
        return Passed(f"check {check.name} passed{tail}")
    if code == 1:
        return Failed(f"check {check.name} failed{tail}", "operator_check")
    if code == 2:
        return NotEnoughData(f"check {check.name} has not enough data{tail}")
    return Broken(f"check {check.name} ended with exit code {code} (0 pass, 1 fail, 2 not enough data){tail}")


def _drain(stream: IO[bytes], kept: bytearray) -> None:
    """Keep the beginning, throw the rest away, so that a talkative check neither blocks nor fills memory."""
    with contextlib.suppress(OSError, ValueError), stream:
        while chunk := os.read(stream.fileno(), _CHUNK):
            kept.extend(chunk[: max(0, _KEPT_BYTES - len(kept))])


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
