"""The decisions as files, for people and other programs: an export that always follows the ledger."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from prx.domain.codec import encode
from prx.domain.decisions import Decision
from prx.domain.errors import EvolutionError
from prx.ledger.port import Ledger
from prx.settings import Settings

FOLDER = "decisions"
_OURS = re.compile(r"decisions-\d{6,}\.(jsonl|json)(\.part)?")


@dataclass(frozen=True, slots=True)
class ExportRules:
    """Where and how decisions are written; `retention_days` 0 keeps every file."""

    folder: Path
    format: str = "jsonl"
    max_entries: int = 10_000
    retention_days: int = 180


@dataclass(frozen=True, slots=True)
class Exported:
    """What one reconciliation did: files in place, written anew, and removed; `why` where it failed."""

    files: int = 0
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    why: str = ""


def export_rules(settings: Settings, home: Path) -> ExportRules | None:
    """What `[self_evolution.decision_log]` asks for; None where no files are wanted."""
    given = settings.decision_log
    if not given.enabled or given.storage != "file":
        return None
    folder = Path(given.path).expanduser() if given.path else Path(FOLDER)
    return ExportRules(home / folder, given.format, given.max_entries, given.retention_days)


@dataclass(slots=True)
class DecisionFiles:
    """Keeps the files as the ledger says. Nothing here raises into the engine."""

    ledger: Ledger
    rules: ExportRules
    seen: int | None = field(default=None, init=False)
    failed: bool = field(default=False, init=False)

    def follow(self, now: datetime) -> Exported | None:
        """Reconcile when the ledger was written to since the last time, or that time failed; else None."""
        try:
            version = self.ledger.data_version()
            if version == self.seen and not self.failed:
                return None
            done = reconcile(self._decisions(), self.rules, now)
        except OSError as error:
            place = error.filename or self.rules.folder
            done = Exported(
                why=f"the decision files cannot be written ({place}: {error.strerror or error}); the ledger "
                "has every decision; free the place or change decision_log.path, and they are made anew"
            )
        except EvolutionError as error:
            done = Exported(why=f"the decision files were not written: {error}")
        else:
            self.seen = version
        self.failed = bool(done.why)
        return done

    def _decisions(self) -> tuple[Decision, ...]:
        with self.ledger.view() as view:
            return view.find(Decision)


def reconcile(decisions: Sequence[Decision], rules: ExportRules, now: datetime) -> Exported:
    """Make the folder hold exactly the files that follow from `decisions`.

    A file that is missing, edited, half-written or out of date is written anew, whole or not at all; files
    past their retention, or of the other format, go. Nothing else in the folder is touched. Raises: OSError.
    """
    wanted = dict(_files(decisions, rules, now))
    rules.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = tuple(name for name, body in wanted.items() if _write(rules.folder / name, body))
    stale = sorted(
        path.name for path in rules.folder.iterdir() if _OURS.fullmatch(path.name) and path.name not in wanted
    )
    for name in stale:
        (rules.folder / name).unlink()
    return Exported(len(wanted), written, tuple(stale))


def _files(decisions: Sequence[Decision], rules: ExportRules, now: datetime) -> Iterator[tuple[str, bytes]]:
    """Names and contents. The number of a file never changes: decisions are counted from the first one."""
    ordered = sorted(decisions, key=lambda one: (one.timestamp, one.decision_id))
    oldest = now - timedelta(days=rules.retention_days) if rules.retention_days else None
    for number, held in enumerate(_batched(ordered, rules.max_entries), 1):
        if oldest is None or held[-1].timestamp >= oldest:
            yield f"decisions-{number:06d}.{rules.format}", _body(held, rules.format)


def _batched(ordered: Sequence[Decision], size: int) -> Iterator[Sequence[Decision]]:
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]


def _body(held: Sequence[Decision], form: str) -> bytes:
    if form == "jsonl":
        return b"".join(encode(one) + b"\n" for one in held)
    return msgspec.json.format(encode(list(held)), indent=2) + b"\n"


def _write(path: Path, body: bytes) -> bool:
    """Write the file unless it holds just this; returns whether it was written."""
    with suppress(FileNotFoundError):
        if path.stat().st_size == len(body) and path.read_bytes() == body:
            return False
    part = path.with_name(f"{path.name}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    return True
