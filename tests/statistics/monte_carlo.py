"""A small harness for error rates: seeded batches, results kept on disk so that a run can be resumed.

A cell simulates one claim. Its batches do not depend on each other or on the order they run in; each is
seeded by (cell seed, batch number). Files lie under `.slow/` (or `$PRX_SLOW`), one per cell, and count only
for the code they ran on (`provenance.digest_of`); a cell with fewer runs uses the first batches.

One rule judges every cell: it fails when the exact 99 % interval of what was observed (Clopper-Pearson for
rates, normal for means) lies wholly outside the claimed range. A figure outside with its interval inside is
told as such: it neither refutes the claim nor shows it.
"""

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from provenance import digest_of
from scipy.stats import beta, norm

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Cell:
    """A claim and its simulation; `simulate(rng, runs)` gives a number per run, True or False for a rate."""

    name: str
    group: str
    claim: str
    seed: int
    runs: int
    batch: int
    simulate: Callable[[np.random.Generator, int], np.ndarray]
    low: float = -math.inf
    high: float = math.inf
    control: bool = False  # a negative control must fall outside [low, high]
    fast_runs: int = 0  # runs in the default tests; 0: slow only
    rate: bool = True

    @property
    def digest(self) -> str:
        return digest_of(self.simulate, seed=self.seed, batch=self.batch)


Verdict = Literal["inside", "outside, within error", "outside"]
JUDGED_AT = 0.99


@dataclass(frozen=True)
class Result:
    """Mean over runs with its 99 % Monte Carlo interval: exact binomial for rates, normal for means."""

    runs: int
    mean: float
    error: float
    interval: tuple[float, float]


def store() -> Path:
    return Path(os.environ.get("PRX_SLOW", ROOT / ".slow"))


def run(cell: Cell, runs: int | None = None) -> Result:
    """Run what is missing of the cell, at most up to `runs`, saving every batch; return all there is."""
    wanted = cell.runs if runs is None else min(runs, cell.runs)
    path = store() / f"{cell.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    saved = _load(path, cell)
    for number in range(math.ceil(wanted / cell.batch)):
        if str(number) in saved["batches"]:
            continue
        size = min(cell.batch, cell.runs - number * cell.batch)
        saved["batches"][str(number)] = _batch(cell, number, size)
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(saved))
        draft.replace(path)
    return summarise(cell, _first(cell, saved["batches"]))


def run_fast(cell: Cell) -> Result:
    """Run `fast_runs` in memory, on other seeds than the slow run."""
    return summarise(cell, {"0": _batch(cell, 10_000, cell.fast_runs)})


def stored(cell: Cell) -> dict[str, dict[str, float]]:
    """Return the batches that ran on today's code, all of the cell or its first ones."""
    return _first(cell, _load(store() / f"{cell.name}.json", cell)["batches"])


def verdict(cell: Cell, result: Result) -> Verdict:
    """Where the figure stands against the claimed range, by the rule above."""
    if cell.low <= result.mean <= cell.high:
        return "inside"
    low, high = result.interval
    return "outside" if high < cell.low or low > cell.high else "outside, within error"


def holds(cell: Cell, result: Result) -> bool:
    """Whether the claim stands: for a negative control, that the harness refuses it."""
    return (verdict(cell, result) == "outside") == cell.control


def compatible(cell: Cell, result: Result, level: float = 1e-4) -> bool:
    """Whether a short run leaves the claim possible: its interval at `level` meets the claimed range."""
    low, high = _interval(cell, result, level)
    return low <= cell.high and high >= cell.low


def summarise(cell: Cell, batches: dict[str, dict[str, float]]) -> Result:
    n = int(sum(b["n"] for b in batches.values()))
    total = math.fsum(b["total"] for b in batches.values())
    squares = math.fsum(b["squares"] for b in batches.values())
    mean = total / n
    error = math.sqrt(max(squares / n - mean * mean, 0.0) / n)
    result = Result(n, mean, error, (mean, mean))
    return Result(n, mean, error, _interval(cell, result, 1.0 - JUDGED_AT))


def _first(cell: Cell, batches: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    wanted = math.ceil(cell.runs / cell.batch)
    return {k: b for k, b in batches.items() if int(k) < wanted}


def _interval(cell: Cell, result: Result, level: float) -> tuple[float, float]:
    if cell.rate:
        hits = round(result.mean * result.runs)
        low = 0.0 if hits == 0 else float(beta.ppf(level / 2, hits, result.runs - hits + 1))
        high = 1.0 if hits == result.runs else float(beta.ppf(1 - level / 2, hits + 1, result.runs - hits))
        return low, high
    reach = float(norm.isf(level / 2)) * result.error
    return result.mean - reach, result.mean + reach


def _batch(cell: Cell, number: int, size: int) -> dict[str, float]:
    values = np.asarray(cell.simulate(np.random.default_rng([cell.seed, number]), size), dtype=float)
    assert values.shape == (size,), f"{cell.name}: simulated {values.shape}, wanted {size} runs"
    return {"n": size, "total": float(values.sum()), "squares": float((values**2).sum())}


def _load(path: Path, cell: Cell) -> dict:
    key = {"name": cell.name, "seed": cell.seed, "batch": cell.batch, "code": cell.digest}
    if path.exists():
        saved = json.loads(path.read_text())
        if key.items() <= saved["key"].items():
            return saved
    return {"key": key, "batches": {}}
