"""A world and a product in it, step by step of simulated time; what tests, statistics and the demo run."""

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from prx.demo.world.bank import PROMPT
from prx.demo.world.customers import Customers
from prx.demo.world.desk import AGENT, Desk
from prx.demo.world.flavours import World
from prx.demo.world.judges import SimulatedJudge
from prx.demo.world.proposers import proposer_of
from prx.demo.world.reader import SimulatedModels
from prx.demo.world.truth import Truth
from prx.domain.errors import EvolutionError
from prx.domain.events import Incident
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.versions import MemoryState
from prx.engine.context import Context, Models
from prx.engine.engine import Engine
from prx.engine.memorypath import sync_memory
from prx.engine.report import Report
from prx.ledger.memory import open_memory as memory_ledger
from prx.ledger.port import Ledger
from prx.ledger.serving import serving
from prx.live.memories import no_memories
from prx.memory import MemoryStore, StoredRecall
from prx.memory import open_memory as open_memories
from prx.records.memory import open_memory as memory_records
from prx.records.port import RecordStore
from prx.settings import Settings
from prx.settings.loading import from_sources
from prx.views.fitness import rules_from

OPERATOR = "person:simulated-operator"
START = datetime.fromisoformat("2026-01-05T00:00:00+00:00")
READS_INCIDENTS_AFTER = timedelta(hours=20)
_HOUR = timedelta(hours=1)


def settings_text(
    world: World, cadence: float = 48.0, planned: int | None = None, judged: float = 0.3
) -> str:
    """The operator's configuration in a world, as a TOML file.

    `cadence`: hours between two analyses. `planned`: sessions per arm that a live test is planned for;
    without it as many as the smallest effect asks for. `judged`: share of live sessions that are judged.
    """
    sample = "" if planned is None else f"planned_sample = {planned}\n"
    often, seldom = f"{cadence * 3600:.0f}", f"{cadence * 7200:.0f}"
    checker = "" if world.loves else '\n[self_evolution.models.judge]\nchecker = "exact_label"\n'
    return f"""\
[self_evolution]
enabled = true
auto_apply = true

[self_evolution.l1]
schedule = "{often}"

[self_evolution.l2]
enabled = true
schedule = "{often}"

[self_evolution.l3]
enabled = true
schedule = "{seldom}"

[self_evolution.pipeline]
analyze_schedule = "{often}"
evolve_schedule = "{often}"

[self_evolution.experiments]
outcome_window_hours = 1.0
{sample}
[self_evolution.fitness]
target_tokens = 150.0
ceiling_tokens = 600.0

[self_evolution.judge]
live_share = {judged}
live_per_tick = 500
{checker}"""


def settings_of(
    world: World, cadence: float = 48.0, planned: int | None = None, judged: float = 0.3
) -> Settings:
    """The operator's settings in a world."""
    text = settings_text(world, cadence, planned, judged)
    return from_sources(text, "the settings of a simulated world", None, {})


def models_of(world: World) -> Models:
    """The model endpoints of a world: agent, judge, proposer."""
    return Models(
        agent=SimulatedModels(world.models[::-1], reads_prompt=world.reads_prompt),
        judge=SimulatedJudge(world.loves),
        proposer=proposer_of(world),
        served={
            traits.name: SimulatedModels((traits,), reads_prompt=world.reads_prompt)
            for traits in world.models
        },
    )


@dataclass(frozen=True, slots=True)
class Life:
    """One version's time in service: days since the start, true fitness when it began, and by what."""

    label: str
    begun: float
    ended: float
    true_fitness: float
    gain: float
    by_engine: bool
    layer: Layer | None


@dataclass(slots=True)
class Simulation:
    """Customers write, the desk serves, the engine advances. `now` is simulated time.

    Args: `stride`: hours between two calls of the engine.
    """

    world: World
    seed: int
    engine: Engine
    start: datetime = START
    stride: int = 6
    truth: Truth = field(init=False)
    ledger: Ledger = field(init=False)
    records: RecordStore = field(init=False)
    now: datetime = field(init=False)
    desk: Desk = field(init=False)
    served: list[tuple[float, str]] = field(default_factory=list)
    right: dict[int, list[bool]] = field(default_factory=dict)
    _customers: Customers = field(init=False)

    def __post_init__(self) -> None:
        self.now, context = self.start, self.engine.context
        self.ledger, self.records = context.ledger, context.records
        self.truth = Truth(self.world, self.seed, context.fitness)
        models = SimulatedModels(self.world.models, reads_prompt=self.world.reads_prompt)
        recaller = no_memories if context.memory is None else StoredRecall(self._store, self._part)
        self.desk = Desk(self.world, self.seed, models, self.start, recaller)
        self._customers = Customers(self.world, self.seed)

    @property
    def day(self) -> float:
        """Days since the start."""
        return (self.now - self.start) / timedelta(days=1)

    def run(self, days: float) -> None:
        """Go on until `days` after the start."""
        while self.day < days - 1e-9:
            self.step()

    def step(self, hours: int | None = None) -> Report:
        """Serve for some hours, then let the engine and the simulated operator act."""
        for _ in range(hours or self.stride):
            for offset, visit in self._customers.hour(self.day):
                right = self.desk.serve(visit, self.now + offset)
                if right is not None and not visit.hostile:
                    self.right.setdefault(int(self.day), []).append(right)
            self.desk.clerks(self.now)
            self.now += _HOUR
            if self.world.remembers:
                self._take_in()
        self.records.append(self.desk.take(self.now))
        report = self.engine.advance(self.now)
        self.operate(report)
        self.refresh()
        return report

    def _take_in(self) -> None:
        """What was said in this hour can be recalled in the next, as where the engine runs all the time."""
        self.records.append(self.desk.take(self.now))
        sync_memory(self.engine.context, self.now, Report())

    def _store(self) -> MemoryStore:
        memory = self.engine.context.memory
        assert memory is not None
        return memory

    def _part(self, part_hash: str) -> MemoryState:
        with self.ledger.view() as view:
            part = view.part(part_hash)
        assert isinstance(part, MemoryState)
        return part

    def operate(self, report: Report) -> None:
        """What the simulated operator does: says yes to strategy changes, reads incidents within a day.

        A prompt change that won but may not go live unattended stays where it is.
        """
        with self.ledger.view() as view:
            waiting = view.find(Proposal, agent=AGENT, state=ProposalState.AWAITING_APPROVAL)
            unread = [i for i in view.find(Incident, agent=AGENT) if i.acknowledged_at is None]
        for proposal in waiting:
            if proposal.layer is Layer.STRATEGY and proposal.approval is None:
                try:
                    self.engine.approve(proposal.proposal_id, actor=OPERATOR, now=self.now, simulated=True)
                except EvolutionError as error:
                    report.add("approval", proposal.proposal_id, "error", str(error))
                    continue
                report.add("approved", proposal.proposal_id, "done", proposal.description)
        for incident in unread:
            if self.now - incident.at >= READS_INCIDENTS_AFTER:
                self.engine.acknowledge(AGENT, incident.incident_id, actor=OPERATOR, now=self.now)
                report.add("acknowledged", incident.incident_id, "done", incident.summary)

    def refresh(self) -> None:
        """Let the app see what the ledger serves, as its background thread would."""
        with self.ledger.view() as view:
            self.desk.serving = serving(view, AGENT)
            pointer = view.pointer(AGENT)
        if pointer and (not self.served or self.served[-1][1] != pointer.label):
            self.served.append((self.day, pointer.label))

    def true_fitness(self, *, day: float | None = None) -> float:
        """True fitness of what serves now. For reports only."""
        with self.ledger.view() as view:
            pointer = view.pointer(AGENT)
            if pointer is None:
                return self.truth.fitness(self.desk.prompt)
            manifest = view.version(AGENT, pointer.label).manifest
            return self.truth.of(view, manifest, day=self.day if day is None else day)

    def true_start(self) -> float:
        """True fitness of the app's first prompt on the first day. For reports only."""
        return self.truth.fitness(PROMPT)

    def lives(self) -> list[Life]:
        """Every version that served, in order, with its true gain over the one before it."""
        found: list[Life] = []
        with self.ledger.view() as view:
            for place, (begun, label) in enumerate(self.served):
                version = view.version(AGENT, label)
                later = self.served[place + 1 :]
                value = self.truth.of(view, version.manifest, day=begun)
                parent = view.version(AGENT, version.parents[0]) if version.parents else version
                before = self.truth.of(view, parent.manifest, day=begun)
                found.append(
                    Life(
                        label=label,
                        begun=begun,
                        ended=later[0][0] if later else self.day,
                        true_fitness=value,
                        gain=value - before,
                        by_engine=version.proposal_id is not None,
                        layer=version.layer,
                    )
                )
        return found


def in_process(
    world: World, seed: int, *, stride: int = 6, cadence: float = 48.0, start: datetime = START
) -> Simulation:
    """A simulation in memory, for tests and statistics. `cadence`: hours between two analyses."""
    settings, ids = settings_of(world, cadence=cadence), Ids(random.Random(f"ledger/{seed}"))
    ledger, records = memory_ledger(ids), memory_records()
    memory = open_memories() if world.remembers else None
    context = Context(
        ledger=ledger,
        records=records,
        settings=settings,
        fitness=rules_from(settings),
        ids=ids,
        models=models_of(world),
        seed=seed,
        memory=memory,
    )
    return Simulation(world, seed, Engine(context), start=start, stride=stride)
