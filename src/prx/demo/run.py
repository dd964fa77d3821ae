"""`prx demo`: the whole chain on a simulated model, with a clock that runs fast."""

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from prx.demo.bank import Customers
from prx.demo.desk import AGENT, Desk
from prx.demo.judge import SimulatedJudge
from prx.demo.plot import fitness_plot
from prx.demo.simulated import SimulatedModel
from prx.demo.story import DAYS, Scene, Story, counts
from prx.domain.ids import Ids
from prx.domain.records import PRODUCTION
from prx.domain.times import utc_now
from prx.engine.context import Models
from prx.fitness.deployment import DeploymentFitness, deployment_fitness
from prx.settings import Settings
from prx.settings.loading import DEFAULT_FILE, from_sources
from prx.wiring.app import App, open_app
from prx.wiring.paths import home_folder

_DAY = timedelta(days=1)
SHOWN = (
    "sessions",
    "interactions",
    "findings",
    "proposals",
    "experiments",
    "decisions",
    "versions",
    "promotions",
    "rollbacks",
    "fitness_start",
    "fitness_end",
)
SETTINGS_FILE = """\
# written by prx demo: the settings that its simulated days ran under
[self_evolution]
enabled = true
auto_apply = true

[self_evolution.l2]
enabled = true
schedule = "86400"

[self_evolution.experiments]
outcome_window_hours = 1.0

[self_evolution.judge]
live_share = 0.4

[self_evolution.models.judge]
checker = "exact_label"
"""
SIMULATED = "simulated model, simulated customers, accelerated clock; the messages are real (BANKING77)"


def run(
    *,
    seed: int = 7,
    as_json: bool = False,
    home: Path | None = None,
    env: Mapping[str, str] | None = None,
    now: datetime | None = None,
    days: int = DAYS,
) -> dict[str, Any]:
    """Run the demo and print it; returns what `--json` prints.

    The state stays in the state folder when that is empty, else in a new folder that is named.
    """
    environment = os.environ if env is None else env
    end = (now or utc_now()).replace(minute=0, second=0, microsecond=0)
    folder, own = _folder(home_folder(home, environment))
    out = Console(stderr=as_json, highlight=False)
    rng = random.Random(seed)
    model = SimulatedModel()
    start = end - timedelta(days=days)
    clock = _Clock(start)
    app = open_app(
        home=folder,
        env={},
        agent=AGENT,
        now=clock,
        ids=Ids(random.Random(seed)),
        models=Models(agent=model, judge=SimulatedJudge()),
        settings=demo_settings(),
        durable=False,
    )
    began = time.monotonic()
    try:
        out.print(f"PRX Evolution demo, seed {seed}: {days} days of a bank's message desk ({SIMULATED})\n")
        desk = Desk(rng=rng, model=model, ids=Ids(random.Random(seed + 1)), clock=start)
        with _bar(out) as bar:
            task = bar.add_task("simulated days", total=days * 24)

            def tell(scene: Scene) -> None:
                day = f"[dim]day {scene.day:5.1f}[/]"
                bar.console.print(f"{day}  [bold]{scene.headline}[/]: {_plain(scene.text)}")

            def progress(done: int, _total: int) -> None:
                bar.update(task, completed=done)

            story = Story(app, desk, Customers(rng), rng, start, tell, progress, days)
            story.run()
        (folder / DEFAULT_FILE).write_text(SETTINGS_FILE, encoding="utf-8")
        result = {
            **_result(app, start, end),
            "simulated": True,
            "seed": seed,
            "days": days,
            "home": str(folder),
        }
        daily = [_fitness(app, start + _DAY * k, start + _DAY * (k + 1)) for k in range(days)]
        _show(out, result, fitness_plot(daily, story.marks, width=min(out.width, 100)), own)
        out.print(f"\n{time.monotonic() - began:.0f} s.")
    finally:
        app.close()
    if as_json:
        sys.stdout.write(json.dumps(result) + "\n")
    return result


def demo_settings() -> Settings:
    """The engine is on and may promote prompts by itself; right answers are told, so a checker judges."""
    return from_sources(SETTINGS_FILE, "the demo's settings", None, {})


class _Clock:
    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


def _folder(home: Path) -> tuple[Path, bool]:
    if not home.exists() or not any(home.iterdir()):
        return home, True
    return Path(tempfile.mkdtemp(prefix="prx-demo-")), False


def _bar(out: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        console=out,
        transient=True,
        disable=not out.is_terminal,
    )


def _result(app: App, start: datetime, end: datetime) -> dict[str, Any]:
    window = timedelta(days=3)
    return {
        **counts(app),
        "fitness_start": _fitness(app, start, start + window),
        "fitness_end": _fitness(app, end - window, end),
    }


def _fitness(app: App, start: datetime, end: datetime) -> float | None:
    scores = app.records.scores(agent=AGENT, env=PRODUCTION, since=start, until=end)
    found = deployment_fitness(scores, rules=app.engine.context.fitness, start=start, end=end)
    return round(found.score, 4) if isinstance(found, DeploymentFitness) else None


def _show(out: Console, result: dict[str, Any], plot: str, own: bool) -> None:
    table = Table(title="What the run left behind (simulated)", show_header=False)
    for key in SHOWN:
        table.add_row(key, str(result[key]))
    out.print()
    out.print(table)
    if plot:
        out.print()
        out.print(plot, markup=False)
    out.print("\nLook around in it:")
    if not own:
        out.print(f"  export PRX_HOME={result['home']}")
    for command in ("status", "fitness", "experiments", "decisions", "versions list", "incidents"):
        out.print(f"  prx evolution {command}")


def _plain(text: str) -> str:
    return text.replace("[", "\\[")
