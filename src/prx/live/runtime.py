"""What every session and call shares: clock, ids, sink, and the counter of our own errors."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from prx.domain.errors import InvalidInput
from prx.domain.ids import Ids
from prx.domain.prices import Prices
from prx.domain.records import PromptSeen, Record, Terminal
from prx.domain.serving import Serving
from prx.live.faults import Faults
from prx.live.memories import Recaller, no_memories

_DEFAULTS_PER_PROMPT = 20
_SIGHTING_S = 900


class Classify(Protocol):
    """Kind of a request by its last user text; an app may bring its own."""

    def __call__(self, text: str, *, tools: bool, tool_result: bool) -> str: ...


class Finishable(Protocol):
    """A call whose terminal record is still to be written."""

    def finish(self, terminal: Terminal | None = None) -> None: ...


@dataclass(slots=True)
class Runtime:
    """Ports of the hot path. `clock` gives monotonic seconds; `now` an aware time; `source` says in every
    record by which way it came."""

    serving: Callable[[str], Serving]
    sink: Callable[[Record], None]
    ids: Ids
    now: Callable[[], datetime]
    clock: Callable[[], float]
    prices: Prices
    classify: Classify
    faults: Faults = field(default_factory=Faults)
    open_calls: dict[str, Finishable] = field(default_factory=dict)
    reported: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    sighted: dict[tuple[str, str, str], int] = field(default_factory=dict)
    recaller: Recaller = no_memories
    source: str = "sdk"

    def new_id(self) -> str:
        """A new record id."""
        return self.ids.new(self.now())

    def emit(self, record: Record) -> None:
        """Hand a record to the sink; a failing sink is counted and costs the app nothing."""
        self.faults.guard("recording", lambda: self.sink(record), None)

    def served(self, agent: str) -> Serving:
        """What the agent is served; nothing known when it cannot be told."""
        try:
            return self.serving(agent)
        except Exception as error:  # noqa: BLE001  as `Faults.guard`, for what is asked several times a call
            self.faults.note("serving", error)
            return Serving(agent=agent)

    def report_prompt(self, agent: str, name: str, text: str, text_hash: str) -> None:
        """Report a default text that is not registered yet; once per process, with an id that repeats.

        A default that differs at every call was filled in before it came here; after 20 texts of one prompt
        no more are reported, and that is counted as a fault with what to do about it.
        """
        seen = self.reported.setdefault((agent, name), set())
        if text_hash in seen:
            return
        if len(seen) >= _DEFAULTS_PER_PROMPT:
            error = InvalidInput(
                f"the default of prompt {name!r} keeps changing; write {{placeholders}} in it and give the "
                "values by keyword, so that it stays one template"
            )
            self.faults.note("prompt default", error)
            return
        seen.add(text_hash)
        record_id = f"prompt/{agent}/{name}/{text_hash}"
        self.emit(PromptSeen(record_id=record_id, at=self.now(), agent=agent, name=name, text=text))

    def sight_prompt(self, agent: str, name: str, text: str, text_hash: str) -> None:
        """Tell that a registered default is in use, at most every 15 minutes over all processes.

        Asked for where an app has had several own texts: which one it has now cannot be seen otherwise.
        """
        now = self.now()
        span = int(now.timestamp()) // _SIGHTING_S
        if self.sighted.get((agent, name, text_hash)) == span:
            return
        self.sighted[agent, name, text_hash] = span
        record_id = f"prompt/{agent}/{name}/{text_hash}/{span}"
        self.emit(PromptSeen(record_id=record_id, at=now, agent=agent, name=name, text=text))

    def after_fork(self) -> None:
        """Start over in a child: calls that were open belong to the parent, which finishes them."""
        self.open_calls = {}
        self.faults.after_fork()
