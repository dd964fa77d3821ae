"""What versions, proposals and breakers should look like, in a few lines without a store.

Each version knows which changes are in force in each layer, oldest first. A rollback serves the changes of
another version again; a change that was served and is no longer in force is rolled back.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from prx.domain.layers import Layer

Stacks = dict[Layer, tuple[str, ...]]
COOLDOWN, LONGEST, PERMIT = timedelta(hours=24), timedelta(days=7), timedelta(hours=48)
WINDOW, LIFETIME = timedelta(hours=168), timedelta(days=60)
LAYERS = (Layer.PROMPT, Layer.STRATEGY)


@dataclass(frozen=True)
class Change:
    """A proposal: what it was written on, and where it stands (awaiting, watching, confirmed, rolled_back,
    rejected, expired)."""

    key: str
    layer: Layer
    base: tuple[str, ...]
    filed: datetime
    state: str = "awaiting_approval"
    since: datetime | None = None
    version: int | None = None


@dataclass
class Gate:
    """A breaker: open until a time, half open with one trial, or closed."""

    state: str = "closed"
    until: datetime | None = None
    trips: int = 0
    permit: str | None = None
    permit_until: datetime | None = None


@dataclass
class Model:
    """`versions[n]` is v1.n; `parents[n]` what it was made from; `served` the number that serves."""

    versions: list[Stacks] = field(default_factory=lambda: [dict.fromkeys(LAYERS, ())])
    parents: list[int | None] = field(default_factory=lambda: [None])
    served: int = 0
    moves: int = 1
    changes: dict[str, Change] = field(default_factory=dict)
    gates: dict[Layer, Gate] = field(default_factory=lambda: {layer: Gate() for layer in LAYERS})

    @property
    def stacks(self) -> Stacks:
        """Changes in force."""
        return self.versions[self.served]

    def may_serve(self, change: Change, now: datetime) -> bool:
        """Whether a yes promotes it: its base still serves, and the layer's breaker lets it in."""
        gate = self.gates[change.layer]
        if change.base != self.stacks[change.layer]:
            return False
        if gate.state == "open" and gate.until and now < gate.until:
            return False
        if gate.state == "closed" or gate.permit in (None, change.key):
            return True
        holder = self.changes[gate.permit]
        lingers = holder.state == "awaiting_approval" and gate.permit_until and now < gate.permit_until
        return not (holder.state == "watching" or lingers)

    def promote(self, change: Change, now: datetime) -> None:
        self._append(change.layer, (*self.stacks[change.layer], change.key))
        self._set(change, state="watching", since=now, version=self.served)
        gate = self.gates[change.layer]
        if gate.state != "closed":
            gate.state, gate.until, gate.permit, gate.permit_until = (
                "half_open",
                None,
                change.key,
                now + PERMIT,
            )

    def go_back(self, number: int, now: datetime) -> None:
        """Serve an earlier version as a whole."""
        before = self.stacks
        self.served, self.moves = number, self.moves + 1
        self._settle(before, now)

    def mix(self, layer: Layer, number: int, now: datetime) -> None:
        """Serve one layer of another version, in a new version."""
        before = self.stacks
        self._append(layer, self.versions[number][layer])
        self._settle(before, now)

    def trip(self, change: Change, now: datetime) -> None:
        """A detector takes the change back and opens its layer's breaker."""
        assert change.version is not None
        parent = self.parents[change.version]
        assert parent is not None
        if change.version == self.served:
            self.go_back(parent, now)
        else:
            self.mix(change.layer, parent, now)
        gate = self.gates[change.layer]
        gate.until = now + min(LONGEST, COOLDOWN * 2**gate.trips)
        gate.state, gate.trips, gate.permit, gate.permit_until = "open", gate.trips + 1, None, None

    def confirm(self, change: Change, now: datetime) -> None:
        self._set(change, state="confirmed", since=now)
        self.gates[change.layer] = Gate()

    def pass_time(self, now: datetime) -> None:
        """What the engine does by itself."""
        for change in list(self.changes.values()):
            if change.state == "awaiting_approval" and now >= change.filed + LIFETIME:
                self._set(change, state="expired", since=now)
            if change.state == "watching" and change.since and now >= change.since + WINDOW:
                self.confirm(change, now)

    def _append(self, layer: Layer, stack: tuple[str, ...]) -> None:
        self.versions.append({**self.stacks, layer: stack})
        self.parents.append(self.served)
        self.served, self.moves = len(self.versions) - 1, self.moves + 1

    def _settle(self, before: Stacks, now: datetime) -> None:
        for layer in LAYERS:
            for key in before[layer]:
                change = self.changes[key]
                if key not in self.stacks[layer] and change.state in ("watching", "confirmed"):
                    self._set(change, state="rolled_back", since=now)

    def _set(self, change: Change, *, state: str, since: datetime, version: int | None = None) -> None:
        kept = change.version if version is None else version
        self.changes[change.key] = Change(
            change.key, change.layer, change.base, change.filed, state, since, kept
        )
