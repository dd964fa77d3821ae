"""`prx demo`: the whole chain in a simulated world, with a clock that runs fast."""

import json
import os
import random
import sys
import tempfile
import textwrap
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from prx.demo.mirror import MirroredRecords
from prx.demo.plot import fitness_plot
from prx.demo.story import DAYS, Story, at_day, counts
from prx.demo.words import Scene
from prx.demo.world.desk import AGENT
from prx.demo.world.flavours import IMPROVABLE, QUICK, Remembering, World, world_named
from prx.demo.world.simulation import Simulation, models_of, settings_of, settings_text
from prx.demo.world.steady import SteadyIds
from prx.domain.records import PRODUCTION
from prx.domain.times import utc_now
from prx.engine.engine import Engine
from prx.fitness.deployment import DeploymentFitness, deployment_fitness
from prx.memory import open_memory
from prx.settings.loading import DEFAULT_FILE
from prx.wiring.app import App, open_app
from prx.wiring.paths import home_folder

SEED = 7
VISITS = 140.0
STRIDE = 8
CADENCE = 72.0
PLANNED = 900
JUDGED = 0.6
STORY_POPULAR = {
    "request_refund": 7.0,
    "transfer_not_received_by_recipient": 2.5,
    "declined_card_payment": 2.0,
}
SIMULATED = "simulated models, simulated customers, a fast clock; the messages are real (BANKING77)"
_WINDOW_DAYS = 3.0
_WIDTH = 80
_TRUTH = "true_fitness_{}_known_only_to_the_simulation"
_SHOWN = {
    "sessions": "sessions",
    "findings": "findings",
    "proposals": "proposals",
    "rejected": "refused before or in a live test",
    "experiments": "live tests",
    "experiments_won": "  won",
    "experiments_lost": "  lost",
    "experiments_undecided": "  undecided",
    "promotions": "promoted",
    "promotions_L1": "  L1 memory",
    "promotions_L2": "  L2 prompt",
    "promotions_L3": "  L3 routing",
    "rollbacks": "rolled back",
    "versions": "versions",
    "decisions": "decisions on record",
    "fitness_start": "measured fitness, first 3 days",
    "fitness_end": "measured fitness, last 3 days",
    _TRUTH.format("start"): "true fitness, first day",
    _TRUTH.format("end"): "true fitness, last day",
}


def run(
    *,
    seed: int = SEED,
    world: str = IMPROVABLE.name,
    as_json: bool = False,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    now: datetime | None = None,
    days: int = DAYS,
) -> dict[str, Any]:
    """Run the demo and print it; returns what `--json` prints.

    The state stays in the folder that `home` or `$PRX_HOME` names when that is empty, else in a new folder
    that is named: what an app records into the default folder never meets simulated users. The story
    ends at the last midnight (UTC) before `now`, and the world runs on from there to the present hour. Equal
    seeds and worlds give equal results on any day and at any hour. Raises: InvalidInput for a world that does
    not exist.
    """
    chosen = demo_world(world)
    environment = os.environ if env is None else env
    until = (now or utc_now()).astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    start = until.replace(hour=0) - timedelta(days=days)
    named = home is not None or bool(environment.get("PRX_HOME"))
    folder, own = _folder(home_folder(home, environment) if named else None)
    out = Console(stderr=as_json, highlight=False, soft_wrap=True)
    began = time.monotonic()
    app, mirror, simulation = _opened(chosen, seed, folder, environment, start)
    try:
        _open_story(out, chosen, seed, days)
        with _bar() as bar:
            task = bar.add_task("simulated days", total=days)
            story = Story(
                simulation,
                lambda scene: _tell(out, scene),
                lambda day: bar.update(task, completed=day),
                days=days,
                scripted=chosen.name == IMPROVABLE.name,
            )
            story.run()
            result = _result(simulation, start, days)
            _run_on(simulation, until)
        mirror.settle()
        text = settings_text(chosen, CADENCE, PLANNED, JUDGED)
        (folder / DEFAULT_FILE).write_text(f"# written by prx demo\n{text}", encoding="utf-8")
        result |= {
            "simulated": True,
            "world": chosen.name,
            "seed": seed,
            "days": days,
            "home": str(folder),
        }
        daily = [_measured(simulation, at_day(start, k), at_day(start, k + 1)) for k in range(days)]
        _show(out, result, fitness_plot(daily, story.marks, width=min(out.width, _WIDTH)), own)
        out.print(f"\n{time.monotonic() - began:.0f} s.")
    finally:
        app.close()
    if as_json:
        sys.stdout.write(json.dumps(result) + "\n")
    return result


def demo_world(name: str) -> World:
    """A world as the demo runs it: with memory, traffic that a minute can hold, and people who speak up."""
    world = world_named(name)
    models = world.models
    if models[0] == QUICK:
        models = (replace(QUICK, blind=QUICK.blind | {"cancel"}), *models[1:])
    popular = STORY_POPULAR if world.name == IMPROVABLE.name else world.popular
    return replace(
        world,
        visits=min(world.visits, VISITS),
        popular=popular,
        people=replace(world.people, outcome=0.85, thumb=0.5),
        models=models,
        remembers=Remembering(follow_ups=0.2, stale=0.04, judged=1.0),
    )


def _opened(
    world: World, seed: int, folder: Path, env: Mapping[str, str], start: datetime
) -> tuple[App, MirroredRecords, Simulation]:
    app = open_app(
        home=folder,
        env=env,
        ids=SteadyIds(random.Random(f"ledger/{seed}"), start),
        models=models_of(world),
        settings=settings_of(world, CADENCE, PLANNED, JUDGED),
        durable=False,
    )
    mirror = MirroredRecords(app.records)
    context = replace(app.engine.context, records=mirror, memory=open_memory(), seed=seed)
    # the key by which sessions are sampled is made with the folder; a fixed one makes equal seeds equal runs
    engine = Engine(replace(context, sample_key=f"demo/{seed}"))
    return app, mirror, Simulation(world, seed, engine, start=start, stride=STRIDE)


def _run_on(simulation: Simulation, until: datetime) -> None:
    """Bring the world to the present, so that the commands that look at the last day find one."""
    while simulation.now < until:
        hours = (until - simulation.now) // timedelta(hours=1)
        simulation.step(min(simulation.stride, hours))


def _folder(home: Path | None) -> tuple[Path, bool]:
    if home is not None and (not home.exists() or not any(home.iterdir())):
        return home, True
    return Path(tempfile.mkdtemp(prefix="prx-demo-")), False


def _open_story(out: Console, world: World, seed: int, days: int) -> None:
    out.print(f"[bold]A bank's message desk, {days} days[/] (world {world.name}, seed {seed})", markup=True)
    intro = (
        f"Everything here is simulated: {SIMULATED}. An agent routes messages to desks. World: {world.says}. "
        "PRX Evolution only sees what is recorded; it looks for weak spots, proposes small changes, and "
        "keeps those that prove better."
    )
    out.print(textwrap.fill(intro, _WIDTH), markup=False)
    out.print()


def _tell(out: Console, scene: Scene) -> None:
    out.print(f"[dim]day {scene.day:4.1f}[/]  [bold]{_plain(scene.headline)}[/]")
    told = textwrap.wrap(scene.text, _WIDTH, initial_indent=" " * 10, subsequent_indent=" " * 10)
    for line in told[:2]:
        out.print(line, markup=False)


def _bar() -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _result(simulation: Simulation, start: datetime, days: int) -> dict[str, Any]:
    return {
        **counts(simulation),
        "fitness_start": _measured(simulation, start, at_day(start, _WINDOW_DAYS)),
        "fitness_end": _measured(simulation, at_day(start, days - _WINDOW_DAYS), at_day(start, days)),
        _TRUTH.format("start"): round(simulation.true_start(), 4),
        _TRUTH.format("end"): round(simulation.true_fitness(), 4),
    }


def _measured(simulation: Simulation, start: datetime, end: datetime) -> float | None:
    scores = simulation.records.scores(agent=AGENT, env=PRODUCTION, since=start, until=end)
    found = deployment_fitness(scores, rules=simulation.engine.context.fitness, start=start, end=end)
    return round(found.score, 4) if isinstance(found, DeploymentFitness) else None


def _show(out: Console, result: dict[str, Any], plot: str, own: bool) -> None:
    table = Table(
        title=f"What {result['days']} days left behind (simulated)", show_header=False, title_justify="left"
    )
    for key, name in _SHOWN.items():
        table.add_row(name, str(result[key]))
    out.print()
    out.print(table)
    out.print()
    out.print(plot, markup=False)
    out.print("\nThe state is kept. Look around in it:")
    if not own:
        out.print(f"  export PRX_HOME={result['home']}", markup=False)
    for command in ("status", "fitness", "experiments", "decisions", "versions", "incidents"):
        out.print(f"  prx evolution {command}")


def _plain(text: str) -> str:
    return text.replace("[", "\\[")
