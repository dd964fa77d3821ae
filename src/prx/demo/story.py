"""What happens in the demo: the world's days, what people do on some of them, and what is told of it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from prx.demo.words import LAYERS, Scene, idea, short, verdict, weakness
from prx.demo.world.bank import PROMPT, PROMPT_NAME
from prx.demo.world.desk import AGENT
from prx.demo.world.simulation import Simulation
from prx.domain.decisions import Decision
from prx.domain.errors import EvolutionError
from prx.domain.events import Incident
from prx.domain.experiments import Experiment
from prx.domain.findings import Finding
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.versions import Version
from prx.engine.report import Step
from prx.ledger.port import View

DAYS = 60
BAD_EDIT_DAY, BROKEN_DAY, REPAIR_DAY = 20, 50, 52
SLOW_LINES = (
    "Before you answer, think about what the customer may feel, greet the customer in your mind,",
    "weigh every desk against every other one, and only then write the label down.",
)
RENAMED = {
    "request_refund": "refunds",
    "pin_blocked": "pins",
    "card_arrival": "card_delivery",
    "lost_or_stolen_card": "card_security",
    "transfer_not_received_by_recipient": "transfers_out",
    "declined_card_payment": "card_payments",
    "exchange_rate": "currencies",
    "pending_top_up": "top_ups",
    "cancel_transfer": "transfers_back",
}
_MOST = {"finding": 4, "refused": 4, "stopped": 3, "memory": 2, "waits": 1}


@dataclass(slots=True)
class Story:
    """Drives a simulation and notes scenes. `scripted`: people do what the story needs, on fixed days."""

    simulation: Simulation
    tell: Callable[[Scene], None]
    progress: Callable[[float], None]
    days: int = DAYS
    scripted: bool = True
    scenes: list[Scene] = field(default_factory=list)
    told: Counter[str] = field(default_factory=Counter)
    silent: int = 0
    _done: set[str] = field(default_factory=set)
    _known: set[str] = field(default_factory=set)

    def run(self) -> None:
        """All days."""
        simulation = self.simulation
        while simulation.day < self.days - 1e-9:
            if self.scripted:
                self._people()
            for step in simulation.step(self._stride()).steps:
                self._note(step)
            self._ends()
            self.progress(simulation.day)

    @property
    def marks(self) -> dict[int, str]:
        """Day and label of the scenes that belong below the plot."""
        return {int(scene.day) + 1: scene.mark for scene in self.scenes if scene.mark}

    def _stride(self) -> int:
        watched = self.scripted and BROKEN_DAY <= self.simulation.day < REPAIR_DAY
        return 2 if watched else self.simulation.stride

    def _people(self) -> None:
        day = self.simulation.day
        if day >= BAD_EDIT_DAY and self._once("bad edit"):
            guarded = "Never ask for a PIN, a password or a full card number.\n"
            self._person_proposes(PROMPT.replace(guarded, ""), "which drops the line that protects PINs")
        text = self._served_prompt()
        if text != PROMPT and not self._testing_prompt() and self._once("slow edit"):
            self._person_proposes(text.rstrip() + "\n" + "\n".join(SLOW_LINES) + "\n", "longer, not better")
        if day >= BROKEN_DAY and self._once("broken"):
            self.simulation.desk.prompt = broken_prompt()
            told = f"it calls {len(RENAMED)} desks by new names that the ticket system does not know yet"
            self._scene("A developer ships a broken prompt", told)
        if day >= REPAIR_DAY and self._once("repaired"):
            self.simulation.desk.prompt = PROMPT

    def _person_proposes(self, text: str, why: str) -> None:
        engine, now = self.simulation.engine, self.simulation.now
        try:
            engine.propose_prompt(AGENT, PROMPT_NAME, text, actor="person:demo", now=now)
        except EvolutionError as error:
            self._scene("A person's edit is refused", short(str(error)))
            return
        self._scene("A person proposes a prompt", why)

    def _testing_prompt(self) -> bool:
        return any(one.layer is Layer.PROMPT for one in self.simulation.desk.serving.experiments)

    def _served_prompt(self) -> str:
        return self.simulation.desk.serving.prompts.get(PROMPT_NAME, PROMPT)

    def _note(self, step: Step) -> None:
        """Tell a step of the engine when it is news."""
        if step.what == "prompt":
            self._scene("The app's prompt becomes a version", step.why)
        elif step.what == "finding":
            self._finding(step)
        elif step.what in ("gate", "replay", "judge", "memory.replay", "memory.change"):
            self._refusal(step)
        elif step.what == "experiment" and step.answer == "done":
            self._started(step)
        elif step.what == "experiment" and self._few("waits"):
            self._scene("A live test waits", short(step.why))
        elif step.what == "screen" and step.answer == "pass" and self._once(step.subject):
            self._scene("L3 routing: both models answered alike tasks", short(step.why.partition(": ")[2]))
        elif step.what == "approved":
            self._scene("L3 routing: a person says yes (simulated operator)", short(step.why))
        elif step.what == "promote" and self._few("memory"):
            self._scene("L1 memory promoted after replay", self._proposed(step.subject), "L1 promoted")
        elif step.what == "confirm" and step.answer == "pass" and self._few("memory", "confirm", 3):
            self._scene("Kept for good", short(step.why))
        elif step.what in ("breaker", "watch") and step.answer == "fail":
            if not self._once(f"trip/{int(self.simulation.day)}"):
                self.silent += 1
                return
            self._scene(f"{step.what.capitalize()} trips, rolled back", short(step.why), f"{step.what} trips")
        elif step.what == "acknowledged" and self._once(f"read/{int(self.simulation.day)}"):
            self._scene("The incident is read (simulated operator)", "the layer may change again")

    def _finding(self, step: Step) -> None:
        with self.simulation.ledger.view() as view:
            finding = view.get(Finding, step.subject)
        if finding.fingerprint not in self._known and self._few("finding"):
            self._scene("Found in the records", weakness(finding))
        self._known.add(finding.fingerprint)

    def _refusal(self, step: Step) -> None:
        if step.answer != "fail" or not self._once(f"{step.what}/{step.subject}"):
            return
        if "an earlier version" in step.why:
            self.silent += 1
            return
        with self.simulation.ledger.view() as view:
            proposal = view.get(Proposal, step.subject)
        if proposal.trigger != "person" and not self._few("refused"):
            self.silent += 1
            return
        stage = {"gate": "at the gate", "judge": "by the judge"}.get(step.what, "on recorded traffic")
        self._scene(f"{LAYERS[proposal.layer]}: refused {stage}", f"{idea(proposal)}: {short(step.why)}")

    def _started(self, step: Step) -> None:
        with self.simulation.ledger.view() as view:
            experiment = view.get(Experiment, step.subject)
            proposal = view.get(Proposal, experiment.proposal_id or "")
        self._scene(f"{LAYERS[experiment.layer]}: live test on half of the users", idea(proposal))

    def _ends(self) -> None:
        """Experiments that ended since."""
        with self.simulation.ledger.view() as view:
            ended = [e for e in view.find(Experiment, agent=AGENT) if e.converged_at or e.winner]
            serves = view.pointer(AGENT)
            waiting = {
                p.experiment_id
                for p in view.find(Proposal, agent=AGENT, state=ProposalState.AWAITING_APPROVAL)
            }
        for experiment in ended:
            if not experiment.looks or not self._once(f"end/{experiment.experiment_id}"):
                continue
            name, numbers = LAYERS[experiment.layer], verdict(experiment)
            if experiment.winner == "treatment" and experiment.experiment_id in waiting:
                self._scene(f"{name}: won, and a person must decide", numbers)
            elif experiment.winner == "treatment":
                label = serves.label if serves else ""
                self._scene(f"{name} promoted: {label} serves everyone", numbers, f"{name[:2]} promoted")
            elif experiment.winner == "control":
                self._scene(f"{name}: live test lost, nothing changes", numbers)
            else:
                self._scene(f"{name}: live test undecided, nothing changes", numbers)

    def _proposed(self, proposal_id: str) -> str:
        with self.simulation.ledger.view() as view:
            return f"{idea(view.get(Proposal, proposal_id))}; logged questions still find their facts"

    def _once(self, key: str) -> bool:
        fresh = key not in self._done
        self._done.add(key)
        return fresh

    def _few(self, kind: str, key: str = "", most: int = 0) -> bool:
        self.told[key or kind] += 1
        return self.told[key or kind] <= (most or _MOST[kind])

    def _scene(self, headline: str, text: str, mark: str = "") -> None:
        scene = Scene(self.simulation.day, headline, text, mark)
        self.scenes.append(scene)
        self.tell(scene)


def broken_prompt() -> str:
    """The app's prompt after a developer renamed desks in it and nowhere else."""
    text = PROMPT
    for old, new in RENAMED.items():
        text = text.replace(f"- {old}:", f"- {new}:")
    return text


def counts(simulation: Simulation) -> dict[str, int]:
    """What the run left behind."""
    stored = simulation.records.counts()
    with simulation.ledger.view() as view:
        return {
            "sessions": stored.get("sessions", 0),
            "interactions": stored.get("interactions", 0),
            "findings": view.count(Finding, agent=AGENT),
            "proposals": view.count(Proposal, agent=AGENT),
            "experiments": view.count(Experiment, agent=AGENT),
            "decisions": view.count(Decision, agent=AGENT),
            "versions": view.count(Version, agent=AGENT),
            **_outcomes(view),
        }


def _outcomes(view: View) -> dict[str, int]:
    proposals, ended = view.find(Proposal, agent=AGENT), view.find(Experiment, agent=AGENT)
    promoted = [proposal for proposal in proposals if proposal.version is not None]
    return {
        "promotions": len(promoted),
        **{f"promotions_{layer.label[-3:-1]}": sum(p.layer is layer for p in promoted) for layer in Layer},
        "experiments_won": sum(one.winner == "treatment" for one in ended),
        "experiments_lost": sum(one.winner == "control" for one in ended),
        "experiments_undecided": sum(one.winner is None and one.converged_at is not None for one in ended),
        "rejected": sum(one.state is ProposalState.REJECTED for one in proposals),
        "rollbacks": sum(1 for one in view.find(Incident, agent=AGENT) if one.restored and one.version),
    }


def at_day(start: datetime, day: float) -> datetime:
    """The moment `day` days after the start."""
    return start + timedelta(days=day)
