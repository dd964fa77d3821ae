"""How long the statistics take, beside scipy and spotify-confidence on the same data.

`python bench/stats.py` prints lines to read; `--json` one JSON object per line. A peer that is not installed
is left out in words. spotify-confidence may live in another interpreter: `PRX_PEER_PYTHON=/path/to/python`
(default: this one).
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

import numpy as np

SESSIONS = 1_000_000
UNITS_PER_ARM = 100_000
PEER = os.environ.get("PRX_PEER_PYTHON", sys.executable)
CASES = ("boundaries_30_looks", "one_look_update", "evaluate_from_sums", "evaluate_from_rows")
LIMITS = {  # seconds
    "boundaries_30_looks": 0.100,
    "one_look_update": 0.005,
    "evaluate_from_sums": 0.250,
    "evaluate_from_rows": 1.000,
}


def rows(seed: int = 20) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arm (0, 1), unit code (unique over arms) and fitness of 1 000 000 sessions of returning users."""
    rng = np.random.default_rng(seed)
    unit = rng.integers(0, 2 * UNITS_PER_ARM, SESSIONS)
    level = rng.normal(0.0, 0.1, 2 * UNITS_PER_ARM)
    score = np.clip(0.72 + level[unit] + rng.normal(0.0, 0.15, SESSIONS), 0.0, 1.0)
    return unit % 2, unit, score


def timed(work: Callable[[], object], repeats: int = 7) -> tuple[float, float]:
    """Median seconds and the spread (largest minus smallest) over repeats, after one to warm up."""
    work()
    taken = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken), max(taken) - min(taken)


def ours(case: str) -> tuple[float, float]:
    from prx.stats import boundaries, composite, design_by_power, infer, look, start
    from prx.stats.estimator import Composite
    from prx.stats.unitsums import ArmTable

    if case == "boundaries_30_looks":
        return timed(lambda: boundaries([(k + 1) / 30 for k in range(30)], spending="power:2"), 21)
    design = design_by_power()
    if case == "one_look_update":
        state = start(design)
        for k in range(1, 15):
            state = look(design, state, 0.05 * k * design.max_information, 0.5, hours=24.0 * k)
        return timed(lambda: look(design, state, 0.75 * design.max_information, 0.5, hours=999.0), 21)
    arm, unit, score = rows()
    parts = [(unit[arm == a], score[arm == a]) for a in (0, 1)]

    def evaluate(tables: list[ArmTable]) -> object:
        result = composite(*tables, weights={"fitness": 1.0})
        assert isinstance(result, Composite)
        state = look(design, start(design), result.information, result.z, hours=24.0)
        return infer(design, state, estimate=result.delta, standard_error=result.se, df=result.df)

    def tables() -> list[ArmTable]:
        return [ArmTable.from_rows(u, {"fitness": s}) for u, s in parts]

    if case == "evaluate_from_sums":
        stored = tables()
        return timed(lambda: evaluate(stored))
    return timed(lambda: evaluate(tables()))


def scipy_peer(case: str) -> tuple[float, float] | None:
    """Welch on unit means, grouped with numpy: the shortest correct way with scipy alone, without looks."""
    from scipy.stats import ttest_ind

    if not case.startswith("evaluate"):
        return None
    arm, unit, score = rows()
    parts = [(unit[arm == a], score[arm == a]) for a in (0, 1)]

    def sums() -> list[tuple[np.ndarray, np.ndarray]]:
        out = []
        for u, s in parts:
            _, code = np.unique(u, return_inverse=True)
            out.append((np.bincount(code, weights=s), np.bincount(code)))
        return out

    def test(stored: list[tuple[np.ndarray, np.ndarray]]) -> object:
        return ttest_ind(*(total / n for total, n in stored), equal_var=False)

    if case == "evaluate_from_rows":
        return timed(lambda: test(sums()))
    stored = sums()
    return timed(lambda: test(stored))


PEER_CODE = """
import json, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {here!r})
import numpy as np, pandas as pd
from stats import rows, timed
import spotify_confidence as confidence
from spotify_confidence.analysis.frequentist.sequential_bound_solver import bounds
case = {case!r}
def evaluate(frame):
    units = frame.groupby(["arm", "unit"])["score"].mean().reset_index()
    return test(units)
def test(units):
    units = units.assign(square=units["score"] ** 2, one=1)
    total = units.groupby("arm")[["score", "square", "one"]].sum().reset_index()
    tool = confidence.StudentsTTest(
        total, numerator_column="score", numerator_sum_squares_column="square", denominator_column="one",
        categorical_group_columns="arm", interval_size=0.95)
    return tool.difference(level_1=0, level_2=1)
if case == "boundaries_30_looks":
    fractions = np.arange(1, 31) / 30
    work = lambda: bounds(fractions, alpha=0.05, rho=2, ztrun=8, sides=2)
else:
    arm, unit, score = rows()
    frame = pd.DataFrame(dict(arm=arm, unit=unit, score=score))
    if case == "evaluate_from_rows":
        work = lambda: evaluate(frame)
    else:
        stored = frame.groupby(["arm", "unit"])["score"].mean().reset_index()
        work = lambda: test(stored)
print(json.dumps(timed(work, 5)))
"""


def spotify_peer(case: str) -> tuple[float, float] | str | None:
    if case == "one_look_update":
        return None
    code = PEER_CODE.format(here=os.path.dirname(os.path.abspath(__file__)), case=case)
    done = subprocess.run([PEER, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no output"
        return f"spotify-confidence did not run ({last})"
    median, spread = json.loads(done.stdout.strip().splitlines()[-1])
    return median, spread


def peer_version(package: str) -> str:
    if package == "spotify-confidence" and sys.executable != PEER:
        code = f"from importlib.metadata import version; print(version({package!r}))"
        done = subprocess.run([PEER, "-c", code], capture_output=True, text=True, check=False)
        return done.stdout.strip() or "not installed"
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def measure(case: str) -> list[dict[str, object]]:
    median, spread = ours(case)
    found: list[tuple[str, tuple[float, float] | str]] = []
    for name, peer in (("scipy", scipy_peer(case)), ("spotify-confidence", spotify_peer(case))):
        if peer is not None:
            found.append((name, peer))
    lines = []
    for name, peer in found or [("none", "no peer does this")]:
        known = peer if isinstance(peer, tuple) else None
        lines.append(
            {
                "bench": "stats",
                "case": case,
                "unit": "s",
                "ours": round(median, 6),
                "limit": LIMITS[case],
                "peer": round(known[0], 6) if known else None,
                "peer_name": name,
                "ratio_to_limit": round(median / LIMITS[case], 4),
                "ratio_to_peer": round(median / known[0], 4) if known else None,
                "n": SESSIONS if case.startswith("evaluate") else 30,
                "spread": round(spread, 6),
                "note": peer if isinstance(peer, str) else "",
                "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
                "versions": {p: peer_version(p) for p in ("numpy", "scipy", "spotify-confidence")},
            }
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--case", choices=CASES, action="append", help="only this case (may be repeated)")
    options = parser.parse_args()
    for case in options.case or CASES:
        for line in measure(case):
            if options.json:
                print(json.dumps(line))
            else:
                peer = f"{line['peer_name']} {line['peer']} s" if line["peer"] else line["note"]
                print(f"{case:22} ours {line['ours']} s, limit {line['limit']} s, {peer}")


if __name__ == "__main__":
    main()
