"""What happens in the demo, hour by hour of simulated time."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from prx.demo.bank import PROMPT, PROMPT_NAME, Customers
from prx.demo.desk import AGENT, Desk
from prx.domain.decisions import Decision
from prx.domain.errors import EvolutionError
from prx.domain.events import Incident
from prx.domain.experiments import Experiment
from prx.domain.findings import Finding
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.versions import Version
from prx.engine.report import Step
from prx.ledger.serving import serving
from prx.wiring.app import App

DAYS = 21
VISITS_PER_HOUR = 10.0
BAD_EDIT_DAY, BROKEN_DAY, REPAIR_DAY = 15, 17, 19
_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Scene:
    """One thing worth telling: the simulated day, a headline, and a line about it."""

    day: float
    headline: str
    text: str


@dataclass(slots=True)
class Story:
    """Drives customers and engine through the days, and notes scenes."""

    app: App
    desk: Desk
    customers: Customers
    rng: random.Random
    start: datetime
    tell: Callable[[Scene], None]
    progress: Callable[[int, int], None]
    days: int = DAYS
    scenes: list[Scene] = field(default_factory=list)
    right: dict[int, list[bool]] = field(default_factory=dict)
    marks: dict[int, str] = field(default_factory=dict)
    _now: datetime = field(init=False)
    _done: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._now = self.start

    @property
    def now(self) -> datetime:
        """Simulated time."""
        return self._now

    def run(self) -> None:
        """All days, one hour after the other."""
        hours = self.days * 24
        for hour in range(hours):
            self._serve_hour()
            self._now += _HOUR
            self._events()
            for step in self.app.engine.advance(self._now).steps:
                self._note(step)
            self._refresh()
            self.progress(hour + 1, hours)

    def _serve_hour(self) -> None:
        visits = _poisson(self.rng, VISITS_PER_HOUR)
        for moment in sorted(self.rng.random() for _ in range(visits)):
            right = self.desk.serve(self.customers.visit(), self._now + moment * _HOUR)
            self.right.setdefault((self._now - self.start).days, []).append(right)
        ready = [record for record in self.desk.buffer if record.at <= self._now + _HOUR]
        later = [record for record in self.desk.buffer if record.at > self._now + _HOUR]
        self.app.records.append(ready)
        self.desk.buffer[:] = later

    def _events(self) -> None:
        day = (self._now - self.start) / timedelta(days=1)
        if day >= BAD_EDIT_DAY and self._once("bad_edit"):
            self._propose_bad_edit()
        if day >= BROKEN_DAY and self._once("broken"):
            self.desk.prompt = PROMPT.replace("request_refund:", "refunds-team:").replace(
                "change_pin:", "pins:"
            )
            self._scene("a developer ships a broken prompt", "two desks are renamed that do not exist")
        if day >= REPAIR_DAY and self._once("repaired"):
            self.desk.prompt = PROMPT

    def _propose_bad_edit(self) -> None:
        text = PROMPT.replace("Never ask for a PIN, a password or a full card number.\n", "")
        try:
            self.app.engine.propose_prompt(AGENT, PROMPT_NAME, text, actor="person:demo", now=self._now)
        except EvolutionError as error:
            self._scene("a person's edit is refused", str(error))
            return
        self._scene("a person proposes a bad edit", "it removes the line that protects PINs and passwords")

    def _refresh(self) -> None:
        with self.app.ledger.view() as view:
            self.desk.serving = serving(view, AGENT)

    def _note(self, step: Step) -> None:
        told = {
            "prompt": "version",
            "finding": "finding",
            "proposal": "proposal",
            "gate": "gate",
            "replay": "replay",
            "judge": "judge",
            "experiment": "experiment",
            "breaker": "circuit breaker",
            "watch": "watch",
            "confirm": "confirmed",
            "approval": "approval",
            "token_targets": "token targets",
        }.get(step.what)
        if step.what == "look":
            self._look(step)
        elif step.what == "finding":
            if self._once(f"finding/{step.subject}"):
                self._scene("finding", step.why)
        elif step.what == "shadow":
            if step.answer != "not_enough_data" or self._once(f"shadow/{step.subject}"):
                self._scene("shadow run", step.why)
        elif step.what == "breaker" and step.answer == "fail":
            self._scene("circuit breaker", step.why)
            self.marks[int(self.scenes[-1].day) + 1] = "breaker rolls back"
        elif told and (step.answer != "not_enough_data" or self._once(f"{step.what}/{step.subject}")):
            self._scene(told if step.answer != "fail" else f"{told} says no", step.why)

    def _look(self, step: Step) -> None:
        with self.app.ledger.view() as view:
            experiment = view.get(Experiment, step.subject)
            look = experiment.looks[-1]
            serves = view.pointer(AGENT)
        if look.difference is None:
            return
        p = f", p {look.p_value:.3f}" if look.p_value is not None else ""
        text = (
            f"{look.control_sessions} v {look.treatment_sessions} sessions, "
            f"difference {look.difference:+.3f}{p}: {experiment.conclusion}"
        )
        self._scene(f"look {look.number}", text)
        if experiment.winner == "treatment" and serves:
            self._scene("promoted", f"{serves.label} serves everyone, and is watched")
            self.marks[int(self.scenes[-1].day)] = f"{serves.label} promoted"

    def _once(self, key: str) -> bool:
        if key in self._done:
            return False
        self._done.add(key)
        return True

    def _scene(self, headline: str, text: str) -> None:
        scene = Scene((self._now - self.start) / timedelta(days=1), headline, text)
        self.scenes.append(scene)
        self.tell(scene)


def counts(app: App) -> dict[str, int]:
    """What the run left behind."""
    stored = app.records.counts()
    with app.ledger.view() as view:
        proposals = view.find(Proposal, agent=AGENT)
        promoted = [p for p in proposals if p.version is not None]
        return {
            "sessions": stored.get("sessions", 0),
            "interactions": stored.get("interactions", 0),
            "findings": view.count(Finding, agent=AGENT),
            "proposals": len(proposals),
            "experiments": view.count(Experiment, agent=AGENT),
            "decisions": view.count(Decision, agent=AGENT),
            "versions": view.count(Version, agent=AGENT),
            "promotions": len(promoted),
            "rollbacks": len([i for i in view.find(Incident, agent=AGENT) if i.restored]),
            "rejected": len([p for p in proposals if p.state is ProposalState.REJECTED]),
        }


def _poisson(rng: random.Random, mean: float) -> int:
    """A Poisson count by the sum of exponential waits."""
    total, count = rng.expovariate(mean), 0
    while total < 1.0:
        total += rng.expovariate(mean)
        count += 1
    return count
