"""The dialects that can be imported, and which of them a file is written in."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from prx.domain.errors import InvalidInput
from prx.domain.records import Record
from prx.ingest import bfcl, inspect_log, langfuse, openprx, own, sweagent, taubench, whowhen
from prx.ingest.drafting import Source


@dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of file: `fits` recognises an item of it, `read` turns the item into records."""

    name: str
    what: str
    fits: Callable[[Any], bool]
    read: Callable[[Any, Source], Iterator[Record]]


DIALECTS: tuple[Dialect, ...] = (
    Dialect("taubench", "tau-bench runs with rewards", taubench.fits_run, taubench.read_run),
    Dialect("taubench-dialogs", "tau-bench dialogs as text", taubench.fits_dialog, taubench.read_dialog),
    Dialect("bfcl", "BFCL multi-turn cases", bfcl.fits, bfcl.read),
    Dialect("sweagent", "SWE-agent trajectories", sweagent.fits, sweagent.read),
    Dialect("langfuse", "Langfuse traces with observations", langfuse.fits, langfuse.read),
    Dialect("whowhen", "Who&When labelled failure logs", whowhen.fits, whowhen.read),
    Dialect("inspect", "Inspect evaluation logs, JSON form", inspect_log.fits, inspect_log.read),
    Dialect("openprx", "OpenPRX decision and memory access logs", openprx.fits, openprx.read),
    Dialect("prx", "our own lines and exact exports", own.fits, own.read),
)


def dialect_named(name: str) -> Dialect:
    """The dialect called `name`. Raises: InvalidInput listing the names."""
    found = next((d for d in DIALECTS if d.name == name.strip().lower()), None)
    if found is None:
        raise InvalidInput(f"no dialect is called {name!r}; use {', '.join(d.name for d in DIALECTS)}")
    return found


def sniff(value: Any) -> Dialect | None:
    """The first dialect that recognises the item; None when none does."""
    return next((d for d in DIALECTS if d.fits(value)), None)
