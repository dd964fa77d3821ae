"""When the head of the audit chain is signed and written to its second place."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from prx.domain.answers import Failed
from prx.domain.errors import EvolutionError
from prx.domain.events import AuditRow
from prx.ledger.audit import EMPTY, Head, verify_chain
from prx.ledger.heads import BEGAN, HeadFile, appending, check_heads, sign
from prx.ledger.port import Ledger
from prx.settings import Settings

EVERY_ROWS = 100
EVERY = timedelta(minutes=10)
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Signed:
    """What one look did: the head that was written, or `why` it was not; neither when none was due."""

    head: Head | None = None
    why: str = ""


def audit_heads(ledger: Ledger, settings: Settings, home: Path) -> "AuditHeads | None":
    """What `[self_evolution.audit]` asks for; a relative name is in the state folder."""
    given = settings.audit
    if not given.head_file:
        return None
    return AuditHeads(ledger, home / Path(given.head_file).expanduser(), given.head_key.encode())


@dataclass(slots=True)
class AuditHeads:
    """Signs the newest link every 100 rows or 10 minutes, and never one that does not follow the last signed.

    Nothing here raises into the engine.
    """

    ledger: Ledger
    path: Path
    key: bytes = field(repr=False)
    seen: int | None = field(default=None, init=False)

    def follow(self, now: datetime, *, at_once: bool = False) -> Signed:
        """Sign where that is due. `at_once`: whatever is new, as before an end."""
        try:
            version = self.ledger.data_version()
            if version == self.seen:
                return Signed()
            with appending(self.path) as file:
                done, settled = self._follow(file, now, at_once)
            self.seen = version if settled else None
            return done
        except OSError as error:
            why = f"the head of the audit log cannot be written to {self.path} ({error.strerror or error})"
            return Signed(why=f"{why}; until it can, a rewritten log is not noticed; check audit.head_file")
        except EvolutionError as error:
            return Signed(why=f"the head of the audit log was not signed: {error}")

    def _follow(self, file: HeadFile, now: datetime, at_once: bool) -> tuple[Signed, bool]:
        """What was done, and whether nothing is left to sign."""
        noted = file.read()
        sound = check_heads(noted, self.key)
        if isinstance(sound, Failed):
            return Signed(why=f"{sound.why}; nothing more is signed until a person looks"), False
        newest = noted.newest
        if newest is None and (why := self._begin(now)):
            return Signed(why=why), False
        rows = self._since(newest.head if newest else EMPTY)
        if isinstance(rows, str):
            return Signed(why=rows), False
        if not rows:
            return Signed(), True
        waited = newest is None or now - newest.at >= EVERY
        if not (at_once or waited or len(rows) >= EVERY_ROWS):
            return Signed(), False
        head = Head(rows[-1].seq, rows[-1].hash)
        file.add(sign(head, at=now, before=newest, key=self.key))
        return Signed(head), True

    def _begin(self, now: datetime) -> str:
        """Note in the log that heads are written from now on; else what is wrong."""
        with self.ledger.transaction(now=now, actor="engine") as tx:
            after = 0
            while page := tx.audit_rows(after=after, limit=_PAGE):
                for row in page:
                    if row.kind == BEGAN and row.subject == str(self.path):
                        why = f"{self.path} holds no signed head, and audit row {row.seq} says that it did"
                        return _alarm(f"{why}: it was emptied or moved")
                after = page[-1].seq
            tx.audit(BEGAN, str(self.path), {})
        return ""

    def _since(self, last: Head) -> list[AuditRow] | str:
        """The rows after the last signed one, checked to follow it; else what is wrong."""
        with self.ledger.view() as view:
            found = view.audit_rows(after=last.seq - 1, limit=1) if last.seq else ()
            if last.seq and (not found or found[0].hash != last.hash):
                return _alarm(f"the audit log does not hold row {last.seq} as it was signed in {self.path}")
            rows, after = list[AuditRow](), last.seq
            while page := view.audit_rows(after=after, limit=_PAGE):
                rows += page
                after = page[-1].seq
        chain = verify_chain(rows, after=last)
        return _alarm(chain.why) if isinstance(chain, Failed) else rows


def _alarm(what: str) -> str:
    return (
        f"{what}: the log was changed, or the store was restored to an older state; nothing more is signed; "
        "run `prx evolution audit verify`"
    )
