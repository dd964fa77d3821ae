"""The recording half of a gateway: spool, journal, sessions, and what is served."""

import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from prx.domain.accepted import AcceptedPrompt
from prx.domain.ids import Ids, system_ids
from prx.domain.prices import Prices, provider_of
from prx.domain.records import Exposure, Interaction, Record, SessionStart, Terminal, UnitSource
from prx.domain.times import utc_now
from prx.gateway.identity import Continuations
from prx.gateway.journal import Journal, recover
from prx.gateway.policy import Policy, Target
from prx.gateway.rules import GatewayRules
from prx.gateway.serving import KillSwitch, LedgerReader, Switched
from prx.gateway.sessions import LiveSessions
from prx.ledger.port import Ledger
from prx.live.intent import classify
from prx.live.poller import ServingPoller
from prx.live.runtime import Runtime
from prx.spool.rules import SpoolRules
from prx.spool.writer import SpoolWriter

_LOG = logging.getLogger("prx.gateway")
SOURCE = "gateway"


class Recorder:
    """Opens what a gateway records into, and brings what a dead one left under way to its end.

    Raises: StoreError, OSError when the spool or the journal cannot be written.
    """

    def __init__(
        self,
        rules: GatewayRules,
        *,
        spool: Path,
        ledger: Callable[[], Ledger],
        accepted: Callable[[tuple[AcceptedPrompt, ...]], None] | None = None,
        spool_rules: SpoolRules | None = None,
        now: Callable[[], datetime] = utc_now,
        ids: Ids | None = None,
        poll_seconds: float = 0.5,
    ) -> None:
        self.now, self.spool_folder = now, spool
        self.policy = rules.policy or Policy()
        self.default = Target(rules.upstream, provider_of(rules.upstream), rules.upstream_key)
        ids = ids or system_ids()
        self.spool = SpoolWriter(spool, now=now, rules=spool_rules or SpoolRules())
        folder = rules.home / "gateway"
        self.recovered = recover(folder, spool, self.spool.append)
        if self.recovered:
            _LOG.warning("recorded %d requests that an earlier process left under way", self.recovered)
        self.journal = Journal(folder)
        self.switch = KillSwitch(rules.home)
        self.ledger = LedgerReader(ledger, accepted)
        # No request waits for the ledger: until it was read, everyone is served as sent.
        self.poller = ServingPoller(self.ledger.read, poll_seconds, first_wait_s=0.0)
        self.stop_listening: Callable[[], None] = _nothing
        self.runtime = Runtime(
            Switched(self.poller, lambda: self.champion_only),
            self._take,
            ids,
            now,
            time.perf_counter,
            Prices(self.policy.prices(self.default.provider)),
            classify,
            source=SOURCE,
        )
        self.sessions = LiveSessions(self.runtime, rules.sessions_kept)
        self.continuations = Continuations()
        self.ended: Counter[str] = Counter()
        self._held: list[Record] | None = None
        self._arms: OrderedDict[str, dict[str, tuple[str, str]]] = OrderedDict()
        self._arms_kept = rules.sessions_kept

    @property
    def champion_only(self) -> bool:
        """Whether the switch is on, or nothing can be recorded: what is served then is no experiment."""
        return self.switch.on or self.spool.over

    def arms_of(self, session_id: str) -> Mapping[str, tuple[str, str]]:
        """Assigned and served variant of a session by experiment, as they were last recorded."""
        return self._arms.get(session_id, {})

    @property
    def killed(self) -> bool:
        """Whether a kill switch is on: that of this gateway, or in the store that of an agent served here."""
        return self.switch.on or any(one.killed for one in self.poller.known)

    def hold(self) -> None:
        """Keep what is recorded from here on until `write_held`, so that it costs one write."""
        self._held = []

    def write_held(self) -> None:
        """Write what was held, at once and in order."""
        held, self._held = self._held, None
        if held:
            self.runtime.faults.guard("recording", lambda: self.spool.append(held), None)

    def close(self) -> None:
        """End calls that are still open as cut, and bring everything to the disk."""
        for call in list(self.runtime.open_calls.values()):
            call.finish(Terminal.SHUTDOWN_CUT)
        self.stop_listening()
        self.poller.close()
        self.spool.close()
        self.ledger.close()
        self.journal.close()

    def _take(self, record: Record) -> None:
        if isinstance(record, Interaction):
            self.ended[record.terminal.value] += 1
        elif isinstance(record, SessionStart):
            record = _with_user_as_unit(record)
        elif isinstance(record, Exposure) and not self.champion_only:
            self._note_arm(record)
        if self._held is not None:
            self._held.append(record)
        else:
            self.spool.append((record,))

    def _note_arm(self, exposure: Exposure) -> None:
        arms = self._arms.setdefault(exposure.session_id, {})
        arms[exposure.experiment_id] = (exposure.assigned, exposure.served)
        if len(self._arms) > self._arms_kept:
            self._arms.popitem(last=False)


def _with_user_as_unit(start: SessionStart) -> SessionStart:
    """A user is a unit even where the client did not say which conversation it is."""
    if start.unit is None and start.user:
        return msgspec.structs.replace(start, unit=start.user, unit_source=UnitSource.USER)
    return start


def _nothing() -> None:
    pass
