"""What the commands need of the application; `prx.wiring` provides it."""

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from prx.domain.erasure import Subject
from prx.domain.events import Incident
from prx.domain.experiments import Experiment
from prx.domain.layers import Layer
from prx.domain.memory import MemoryStats
from prx.domain.proposals import Proposal
from prx.engine.report import Report
from prx.ledger.port import Ledger
from prx.propose.tending import Task
from prx.records.port import RecordStore
from prx.release.rollback import RollbackResult
from prx.settings import Settings
from prx.spool.ship import Shipped

if TYPE_CHECKING:
    from prx.wiring.erase import ErasureReport, ForgetPrompts


class Engine(Protocol):
    """The verbs of the engine that a person may use; each raises EvolutionError when it refuses."""

    def advance(self, now: datetime) -> Report:
        """Execute whatever is due."""
        ...

    def trigger(self, agent: str, layer: Layer, now: datetime, *, dry_run: bool = False) -> Report:
        """Run one cycle of a layer now; a dry run writes nothing."""
        ...

    def tend_memory(
        self, agent: str, tasks: tuple[Task, ...], now: datetime, *, dry_run: bool = False
    ) -> Report:
        """Compact or prune the memory now; a dry run writes nothing."""
        ...

    def memory_stats(self, agent: str, now: datetime) -> MemoryStats:
        """What the memory holds."""
        ...

    def approve(self, proposal_id: str, *, actor: str, now: datetime) -> Proposal:
        """A person's yes."""
        ...

    def reject(self, proposal_id: str, *, actor: str, why: str, now: datetime) -> Proposal:
        """A person's no."""
        ...

    def confirm(self, proposal_id: str, *, actor: str, now: datetime) -> Proposal:
        """End the watch of an applied change: it stays."""
        ...

    def propose_prompt(self, agent: str, name: str, text: str, *, actor: str, now: datetime) -> Proposal:
        """A person's own new text for a prompt, on the same path as the engine's."""
        ...

    def rollback(
        self,
        agent: str,
        *,
        target: str | None = None,
        layer: Layer | None = None,
        snapshot: str | None = None,
        operation: str | None = None,
        actor: str,
        now: datetime,
    ) -> RollbackResult:
        """Restore a version, or one layer of it; without a target undo the last applied change."""
        ...

    def rollback_preview(
        self,
        agent: str,
        *,
        target: str | None = None,
        layer: Layer | None = None,
        snapshot: str | None = None,
    ) -> str:
        """What `rollback` with the same arguments would do, in words."""
        ...

    def cancel_experiment(self, experiment_id: str, *, actor: str, now: datetime) -> Experiment:
        """End without a winner; control serves at once."""
        ...

    def converge_experiment(self, experiment_id: str, *, actor: str, now: datetime) -> Experiment:
        """End with what the newest look concludes."""
        ...

    def create_aa(self, agent: str, layer: Layer, *, actor: str, now: datetime) -> Experiment:
        """Start an experiment whose arms are equal."""
        ...

    def plan_experiment(self, agent: str, layer: Layer, now: datetime) -> dict[str, Any]:
        """What an experiment on the layer could find out with the traffic of the last days."""
        ...

    def pause(self, agent: str, *, actor: str, why: str, now: datetime) -> object:
        """Stop proposing and promoting until resumed."""
        ...

    def resume(self, agent: str, *, actor: str, why: str, now: datetime) -> object:
        """Go on after a pause or a kill."""
        ...

    def kill(self, agent: str, *, actor: str, why: str, now: datetime) -> object:
        """Serve the current version to everyone at once and stop."""
        ...

    def acknowledge(self, agent: str, incident_id: str, *, actor: str, now: datetime) -> Incident:
        """A person has read an incident."""
        ...

    def score(self, now: datetime) -> object:
        """Bring the derived session scores up to date."""
        ...


class App(Protocol):
    """An opened installation."""

    @property
    def settings(self) -> Settings:
        """The configuration in force."""
        ...

    @property
    def ledger(self) -> Ledger:
        """The control plane."""
        ...

    @property
    def records(self) -> RecordStore:
        """The data plane."""
        ...

    @property
    def engine(self) -> Engine:
        """The engine over both."""
        ...

    @property
    def home(self) -> Path:
        """Where the state is."""
        ...

    def advance(self, *, safety_only: bool = False) -> Report:
        """Ship what was spooled, then do everything that is due, or only what guards."""
        ...

    def serving_usd(self, agent: str) -> float | None:
        """What the agent's own traffic cost in the last 30 days; None where no price is known."""
        ...

    def ship(self) -> Shipped:
        """Bring spooled records into the store."""
        ...

    def erase(
        self, subject: Subject, *, actor: str, dry_run: bool, forget_prompts: "ForgetPrompts"
    ) -> "ErasureReport":
        """Remove everything recorded of the subject."""
        ...

    def close(self) -> None:
        """Release files and locks."""
        ...


class Opener(Protocol):
    """Opens the installation that a command works on."""

    def __call__(
        self,
        *,
        home: Path | None,
        config: Path | None,
        env: Mapping[str, str],
        agent: str = "default",
        now: Callable[[], datetime],
    ) -> App:
        """Raises: SettingsError, StoreError."""
        ...
