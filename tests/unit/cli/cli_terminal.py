# ruff: noqa: ARG002 - a fake takes what the real thing takes
"""The command line over in-memory stores and an engine that writes down what it was asked."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).parent.parent / "views"))

from evolved_world import NOW, World, plan

from prx.cli.call import Outside
from prx.cli.program import main
from prx.domain.errors import StoreError
from prx.domain.events import Control, Incident
from prx.domain.experiments import Experiment, ExperimentStatus
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal
from prx.domain.versions import Version
from prx.engine.report import Report
from prx.release.rollback import RollbackResult
from prx.settings import Settings, load
from prx.spool.ship import Shipped


class AskedEngine:
    """Answers like the engine and keeps what it was asked; `refuse` makes the next verb raise."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.refuse: Exception | None = None

    def _ask(self, verb: str, **given: Any) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.asked.append((verb, given))

    def _record(self, kind: type[Any], key: str) -> Any:
        with self.world.ledger.view() as view:
            return view.get(kind, key)

    def score(self, now: datetime) -> int:
        self._ask("score")
        return 0

    def advance(self, now: datetime, *, safety_only: bool = False) -> Report:
        self._ask("advance", **({"safety_only": True} if safety_only else {}))
        return _report("done")

    def trigger(self, agent: str, layer: Layer, now: datetime, *, dry_run: bool = False) -> Report:
        self._ask("trigger", agent=agent, layer=layer, dry_run=dry_run)
        return _report("not_enough_data")

    def approve(self, proposal_id: str, *, actor: str, now: datetime) -> Proposal:
        self._ask("approve", proposal_id=proposal_id, actor=actor)
        return self._record(Proposal, proposal_id)

    def reject(self, proposal_id: str, *, actor: str, why: str, now: datetime) -> Proposal:
        self._ask("reject", proposal_id=proposal_id, why=why)
        return self._record(Proposal, proposal_id)

    def confirm(self, proposal_id: str, *, actor: str, now: datetime) -> Proposal:
        self._ask("confirm", proposal_id=proposal_id)
        return self._record(Proposal, proposal_id)

    def propose_prompt(self, agent: str, name: str, text: str, *, actor: str, now: datetime) -> Proposal:
        self._ask("propose", agent=agent, name=name, text=text)
        return self._record(Proposal, self.world.ids["won"])

    def rollback(self, agent: str, *, actor: str, now: datetime, **given: Any) -> RollbackResult:
        self._ask("rollback", agent=agent, **given)
        version = self._record(Version, self.world.ids["v1.0"])
        return RollbackResult("v1.0", "v1.1", (Layer.PROMPT,), version, ("e-1",))

    def rollback_preview(self, agent: str, **given: Any) -> str:
        if self.refuse is not None:
            raise self.refuse
        return "serve v1.0 again instead of v1.1"

    def cancel_experiment(self, experiment_id: str, *, actor: str, now: datetime) -> Experiment:
        self._ask("cancel", experiment_id=experiment_id)
        found = self._record(Experiment, experiment_id)
        return msgspec.structs.replace(found, status=ExperimentStatus.CANCELLED)

    def converge_experiment(self, experiment_id: str, *, actor: str, now: datetime) -> Experiment:
        self._ask("converge", experiment_id=experiment_id)
        return self._record(Experiment, experiment_id)

    def create_aa(self, agent: str, layer: Layer, *, actor: str, now: datetime) -> Experiment:
        self._ask("create_aa", agent=agent, layer=layer)
        return self._record(Experiment, self.world.ids["running"])

    def plan_experiment(self, agent: str, layer: Layer, now: datetime) -> dict[str, Any]:
        self._ask("plan", agent=agent, layer=layer)
        return plan().forecast

    def pause(self, agent: str, *, actor: str, why: str, now: datetime) -> Control:
        self._ask("pause", agent=agent, why=why)
        return Control(agent=agent, paused=True)

    def resume(self, agent: str, *, actor: str, why: str, now: datetime) -> Control:
        self._ask("resume", agent=agent, why=why)
        return Control(agent=agent)

    def kill(self, agent: str, *, actor: str, why: str, now: datetime) -> Control:
        self._ask("kill", agent=agent, why=why)
        return Control(agent=agent, killed=True)

    def acknowledge(self, agent: str, incident_id: str, *, actor: str, now: datetime) -> Incident:
        self._ask("acknowledge", agent=agent, incident_id=incident_id)
        return msgspec.structs.replace(self._record(Incident, incident_id), acknowledged_at=now)


def _report(answer: str) -> Report:
    report = Report()
    report.add("propose", "prompt_weakness: card_swallowed", answer, "14 of 40 sessions, 100 needed")
    return report


@dataclass(slots=True)
class MemoryApp:
    """An installation that lives in memory."""

    settings: Settings
    ledger: Any
    records: Any
    engine: AskedEngine
    home: Path
    closed: int = 0

    def ship(self) -> Shipped:
        return Shipped()

    def serving_usd(self, agent: str) -> float | None:
        return 100.0 if agent == "default" else None

    def advance(self, *, safety_only: bool = False) -> Report:
        return self.engine.advance(NOW, safety_only=safety_only)

    def close(self) -> None:
        self.closed += 1


@dataclass(slots=True)
class Answer:
    """What one command line gave."""

    code: int
    out: str
    err: str


@dataclass(slots=True)
class Terminal:
    """Runs command lines; `engine.asked` shows what reached the engine."""

    world: World
    engine: AskedEngine
    folder: Path
    capture: Callable[[], tuple[str, str]]
    env: dict[str, str] = field(default_factory=dict)
    broken: str | None = None
    apps: list[MemoryApp] = field(default_factory=list)

    def __call__(self, *arguments: str, width: int | None = None) -> Answer:
        own = {"PRX_HOME": str(self.folder), "USER": "ada"}  # never the home of whoever runs the tests
        env = {**own, **self.env, **({"COLUMNS": str(width)} if width else {})}
        self.capture()
        code = main(arguments, Outside(self.open, env, lambda: NOW, self.folder))
        out, err = self.capture()
        return Answer(code, out, err)

    def open(
        self,
        *,
        home: Path | None,
        config: Path | None,
        env: Mapping[str, str],
        agent: str = "default",
        now: Callable[[], datetime],
    ) -> MemoryApp:
        if self.broken:
            raise StoreError(self.broken)
        settings = load(config, env, self.folder)
        app = MemoryApp(settings, self.world.ledger, self.world.records, self.engine, home or self.folder)
        self.apps.append(app)
        return app
