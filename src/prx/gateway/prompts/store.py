"""The files that hold what was learned (written by the gateway) and what was accepted (by a person)."""

import fcntl
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from prx.domain.accepted import AcceptedPrompt
from prx.domain.errors import Conflict, InvalidInput, NotFound, StoreError
from prx.release.erased import ERASED

T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
LEARNED, ACCEPTED = "learned.json", "accepted.json"


class Learned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A template that was learned. `follows`: the accepted prompt whose text the developer changed to
    this."""

    agent: str
    name: str
    text: str
    slots: tuple[str, ...] = ()
    first_seen: datetime | None = None
    follows: str | None = None


class Accepted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A template that a person accepted under a name; only then is anything replaced. `shared`: it is in the
    ledger too, for every gateway there."""

    agent: str
    name: str
    text: str
    slots: tuple[str, ...] = ()
    at: datetime
    by: str = ""
    shared: bool = False


_LEARNED = msgspec.json.Decoder(tuple[Learned, ...])
_ACCEPTED = msgspec.json.Decoder(tuple[Accepted, ...])


class PromptFiles:
    """Both files of a state folder."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "prompts"

    def learned(self) -> tuple[Learned, ...]:
        """All learned templates. Raises: StoreError for a damaged file."""
        return self._read(LEARNED, _LEARNED)

    def accepted(self) -> tuple[Accepted, ...]:
        """All accepted templates. Raises: StoreError for a damaged file."""
        return self._read(ACCEPTED, _ACCEPTED)

    def stamp(self) -> tuple[tuple[int, int], ...]:
        """Changes whenever the templates do, learned or accepted."""
        return tuple(_stamp(self._folder / name) for name in (LEARNED, ACCEPTED))

    def learn(self, name: Callable[[tuple[Learned, ...]], Learned]) -> None:
        """Add a learned template, which `name` makes knowing those of the file: what was removed meanwhile
        does not come back. Raises: StoreError."""
        with self._alone():
            known = self.learned()
            self._write(LEARNED, (*known, name(known)))

    def accept(self, agent: str, name: str, *, new_name: str | None, now: datetime, by: str) -> Accepted:
        """Accept a learned template. Raises: NotFound, InvalidInput, Conflict."""
        with self._alone():
            return self._accept(agent, name, new_name=new_name, now=now, by=by)

    def _accept(self, agent: str, name: str, *, new_name: str | None, now: datetime, by: str) -> Accepted:
        chosen = new_name or name
        if not _NAME.fullmatch(chosen):
            raise InvalidInput(f"{chosen!r} is no name for a prompt; use letters, digits, dots, dashes, _")
        found = next((one for one in self.learned() if (one.agent, one.name) == (agent, name)), None)
        if found is None:
            names = ", ".join(one.name for one in self.learned() if one.agent == agent) or "none yet"
            raise NotFound(f"no prompt {name!r} of agent {agent!r} was learned; learned: {names}")
        known = self.accepted()
        same = next((one for one in known if (one.agent, one.name) == (agent, chosen)), None)
        if same is not None and same.text == found.text:
            return same
        if same is not None and found.follows != chosen:
            raise Conflict(
                f"a prompt {chosen!r} of agent {agent!r} is accepted already, with another text; "
                "choose another name with --as"
            )
        new = Accepted(agent=agent, name=chosen, text=found.text, slots=found.slots, at=now, by=by)
        rest = tuple(one for one in known if (one.agent, one.name) != (agent, chosen))
        self._write(ACCEPTED, (*rest, new))
        return new

    def follow(self, shared: Iterable[AcceptedPrompt]) -> None:
        """Hold what is accepted in a ledger that gateways share, so that it serves without the ledger too.

        What was accepted here alone stays, but for a name that is accepted there. Raises: StoreError,
        OSError.
        """
        there = [
            Accepted(agent=o.agent, name=o.name, text=o.text, slots=o.slots, at=o.at, by=o.by, shared=True)
            for o in shared
            if o.text != ERASED
        ]
        names = {(one.agent, one.name) for one in there}
        with self._alone():
            known = self.accepted()
            here = [one for one in known if not one.shared and (one.agent, one.name) not in names]
            if (*there, *here) != known:
                self._write(ACCEPTED, (*there, *here))

    def forget(self, holds: Callable[[str], bool], *, rehearse: bool = False) -> int:
        """Remove the templates, learned and accepted, whose text `holds` finds; returns how many. An accepted
        one then passes as clients send it. `rehearse`: only count."""
        if not self._folder.exists():
            return 0
        removed = 0
        with self._alone():
            for name, found in ((LEARNED, self.learned()), (ACCEPTED, self.accepted())):
                kept = tuple(one for one in found if not holds(one.text))
                if len(kept) < len(found) and not rehearse:
                    self._write(name, kept)  # type: ignore[arg-type]
                removed += len(found) - len(kept)
        return removed

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process changes the files meanwhile."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _read(self, name: str, decoder: msgspec.json.Decoder[tuple[T, ...]]) -> tuple[T, ...]:
        try:
            return decoder.decode((self._folder / name).read_bytes())
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(
                f"{self._folder / name} cannot be read ({error}); restore it from a backup or remove it"
            ) from error

    def _write(self, name: str, value: tuple[Learned, ...] | tuple[Accepted, ...]) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        staged = self._folder / f"{name}.{os.getpid()}.new"
        staged.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=1))
        staged.chmod(0o600)
        os.replace(staged, self._folder / name)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        seen = path.stat()
    except OSError:
        return (0, 0)
    return (seen.st_mtime_ns, seen.st_ino)


def drifted(folder: Path, champions: Mapping[str, str]) -> list[str]:
    """Names of prompts whose file differs from what is served, sorted; a missing file differs."""
    out = []
    for name, text in champions.items():
        try:
            same = file_of(folder, name).read_text("utf-8") == text
        except (FileNotFoundError, UnicodeDecodeError):
            same = False
        if not same:
            out.append(name)
    return sorted(out)


def file_of(folder: Path, name: str) -> Path:
    """Where a prompt's text is kept for git. Raises: InvalidInput for a name that leaves the folder."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"the prompt {name!r} has a name that cannot be a file; rename it")
    return folder / f"{name}.txt"
