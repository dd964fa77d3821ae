"""Runs of whole simulated worlds, one result file per seed under `.slow/worlds/`, so that they can resume.

`python tests/statistics/world_runs.py NAME [SHARD OF]` runs what is missing of a plan, or one shard of it.
"""

import hashlib
import json
import math
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from monte_carlo import store
from provenance import digest_of
from scipy.stats import beta, t

from prx.demo.world import in_process, world_named
from prx.demo.world.bank import GUIDE, PROMPT
from prx.demo.world.desk import AGENT
from prx.domain.events import Incident
from prx.domain.experiments import Experiment
from prx.domain.findings import Finding
from prx.domain.proposals import Proposal

WATCH_DAYS = 7.0
SAME = 1e-9


@dataclass(frozen=True)
class Plan:
    """How one world is run: seeds 0..seeds-1, simulated days, visits a day, hours between engine calls and
    between analyses."""

    world: str
    seeds: int
    days: float
    visits: float = 200.0
    stride: int = 6
    cadence: float = 48.0

    @property
    def key(self) -> str:
        """Changes with the plan and with what is true in the world."""
        told = asdict(self) | {"world": asdict(world_named(self.world)), "texts": [PROMPT, GUIDE]}
        told.pop("seeds")
        stable = json.dumps(told, sort_keys=True, default=sorted)
        return hashlib.sha256(stable.encode()).hexdigest()[:16]


PLANS = {
    plan.world: plan
    for plan in (
        Plan("improvable", 20, 30.0, stride=12),
        Plan("null", 200, 20.0, visits=120.0, stride=12, cadence=96.0),
        Plan("harmful", 5, 24.0, stride=12),
        Plan("hackable", 5, 20.0, stride=12),
        Plan("drift", 5, 40.0, stride=12),
        Plan("poisoned", 5, 20.0, stride=12),
        Plan("low-traffic", 5, 40.0, visits=12.0, stride=12),
        Plan("outage", 5, 24.0, stride=12),
    )
}


def outcome(plan: Plan, seed: int) -> dict[str, Any]:
    """The result of one seed, from disk when it was run already."""
    path = store() / "worlds" / plan.world / f"{seed}.json"
    if path.exists():
        saved: dict[str, Any] = json.loads(path.read_text())
        if saved["key"] == plan.key:
            return saved
    found = {"key": plan.key, "code": today(), **simulate(plan, seed)}
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{seed}.tmp")
    draft.write_text(json.dumps(found))
    draft.replace(path)
    return found


@cache
def today() -> str:
    """Digest of the code that a run depends on, the same when this file is the program itself."""
    return digest_of(import_module("world_runs").simulate, seed=0, batch=1)


def simulate(plan: Plan, seed: int) -> dict[str, Any]:
    """One run in memory: what was promoted, what it was truly worth, and how long it served."""
    world = replace(world_named(plan.world), visits=plan.visits)
    running = in_process(world, seed, stride=plan.stride, cadence=plan.cadence)
    began = running.truth.fitness(running.desk.prompt)
    errors = []
    while running.day < plan.days - 1e-9:
        report = running.step()
        errors += [f"{step.what}: {step.why}"[:200] for step in report.steps if step.answer == "error"]
    lives = running.lives()
    promoted = [life for life in lives if life.by_engine and life.layer is not None]
    fresh = {life.label: life for life in promoted}
    with running.ledger.view() as view:
        made = [view.version(AGENT, life.label) for life in promoted]
        back = {version.label for version in made if version.source == "rollback"}
        counted = {kind.__name__: view.count(kind, agent=AGENT) for kind in (Finding, Proposal, Experiment)}
        incidents = view.find(Incident, agent=AGENT)
    gains = [life.gain for label, life in fresh.items() if label not in back]
    harmful = [
        life.ended - life.begun for label, life in fresh.items() if life.gain < -SAME and label not in back
    ]
    return {
        "seed": seed,
        "sessions": running.records.counts()["sessions"],
        "findings": counted["Finding"],
        "proposals": counted["Proposal"],
        "experiments": counted["Experiment"],
        "promotions": len(gains),
        "gains": gains,
        "false_promotions": sum(gain <= SAME for gain in gains),
        "harmful_days": harmful,
        "rollbacks": sum(1 for incident in incidents if incident.restored and incident.version),
        "trips": sum(incident.detector == "breaker" for incident in incidents),
        "true_start": began,
        "true_end": running.true_fitness(),
        "true_end_unchanged": running.truth.fitness(running.desk.prompt, day=running.day),
        "errors": errors,
    }


def stored(plan: Plan) -> list[dict[str, Any]]:
    """Results on disk for this plan, by seed."""
    found = []
    for seed in range(plan.seeds):
        path = store() / "worlds" / plan.world / f"{seed}.json"
        if path.exists():
            saved = json.loads(path.read_text())
            if saved["key"] == plan.key:
                found.append(saved)
    return found


def gained(results: Iterable[dict[str, Any]]) -> list[float]:
    """True fitness at the end minus that of an unchanged agent on the same day."""
    return [one["true_end"] - one["true_end_unchanged"] for one in results]


def mean_interval(values: list[float]) -> tuple[float, float, float]:
    """Mean with its 95 % interval over seeds (Student's t)."""
    n, mean = len(values), math.fsum(values) / len(values)
    if n < 2:
        return mean, -math.inf, math.inf
    error = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1) / n)
    reach = float(t.ppf(0.975, n - 1)) * error
    return mean, mean - reach, mean + reach


def upper_bound(hits: int, runs: int, level: float = 0.05) -> float:
    """One-sided exact upper bound of a rate (Clopper and Pearson 1934)."""
    return 1.0 if hits >= runs else float(beta.ppf(1 - level, hits + 1, runs - hits))


def main(arguments: list[str]) -> None:
    """Run a plan, or a shard of it, and print a line per seed."""
    plan = PLANS[arguments[0]]
    shard, of = (int(arguments[1]), int(arguments[2])) if len(arguments) > 2 else (0, 1)
    for seed in range(shard, plan.seeds, of):
        one = outcome(plan, seed)
        told = {k: one[k] for k in ("sessions", "experiments", "gains", "harmful_days", "trips", "errors")}
        print(plan.world, seed, told, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1:])
