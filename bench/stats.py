"""How long the statistics take, beside scipy and spotify-confidence on the same data.

Every number is CPU time (median, and the middle half of the repeats) of a process of its own that holds
nothing but its input, as a tick that has loaded the stored sums does: in a process that has freed large
arrays before, whoever allocates most looks faster than it is. The two sides take turns, so that a busy
machine slows both.

What is compared: ours gives the estimate with a cluster-robust error, the boundary of the look, repeated and
stage-wise intervals and p-values. scipy gives Welch's t test on unit means with its interval: one look, no
boundary. spotify-confidence gives its t test with an interval. All start from the same rows, or from the
same stored sums (sessions and summed score per unit).

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
import tempfile
import time
import warnings
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


def columns(arm: np.ndarray, unit: np.ndarray, score: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Per arm, sessions and summed score of every unit that was seen."""
    found = []
    for a in (0, 1):
        code = np.unique(unit[arm == a], return_inverse=True)[1]
        found.append((np.bincount(code), np.bincount(code, weights=score[arm == a])))
    return found


def timed(work: Callable[[], object], repeats: int) -> list[float]:
    """CPU seconds of each repeat, after one to warm up."""
    work()
    taken = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        taken.append(time.process_time() - begin)
    return taken


def ours(case: str, source: str) -> Callable[[], object]:
    from prx.stats import boundaries, composite, design_by_power, infer, look, start
    from prx.stats.estimator import Composite
    from prx.stats.unitsums import ArmTable

    if case == "boundaries_30_looks":
        return lambda: boundaries([(k + 1) / 30 for k in range(30)], spending="power:2")
    design = design_by_power()
    if case == "one_look_update":
        state = start(design)
        for k in range(1, 15):
            state = look(design, state, 0.05 * k * design.max_information, 0.5, hours=24.0 * k)
        return lambda: look(design, state, 0.75 * design.max_information, 0.5, hours=999.0)

    def evaluate(tables: list[ArmTable]) -> object:
        result = composite(*tables, weights={"fitness": 1.0})
        assert isinstance(result, Composite)
        state = look(design, start(design), result.information, result.z, hours=24.0)
        return infer(design, state, estimate=result.delta, standard_error=result.se, df=result.df)

    data = np.load(source)
    if case == "evaluate_from_rows":
        parts = [(data[f"unit{a}"], data[f"score{a}"]) for a in (0, 1)]
        return lambda: evaluate([ArmTable.from_rows(u, {"fitness": s}) for u, s in parts])
    stored = []
    for a in (0, 1):
        n, total = data[f"n{a}"], data[f"total{a}"]
        stored.append(ArmTable.from_columns(n={"fitness": n}, total={"fitness": total}, sessions=n))
    return lambda: evaluate(stored)


def scipy_peer(case: str, source: str) -> Callable[[], object]:
    """Welch on unit means with its interval, grouped with numpy: the shortest way with scipy alone."""
    from scipy.stats import ttest_ind

    data = np.load(source)

    def test(stored: list[tuple[np.ndarray, np.ndarray]]) -> object:
        return ttest_ind(*(total / n for n, total in stored), equal_var=False).confidence_interval()

    def sums(parts: list[tuple[np.ndarray, np.ndarray]]) -> list[tuple[np.ndarray, np.ndarray]]:
        out = []
        for u, s in parts:
            _, code = np.unique(u, return_inverse=True)
            out.append((np.bincount(code), np.bincount(code, weights=s)))
        return out

    if case == "evaluate_from_rows":
        parts = [(data[f"unit{a}"], data[f"score{a}"]) for a in (0, 1)]
        return lambda: test(sums(parts))
    stored = [(data[f"n{a}"], data[f"total{a}"]) for a in (0, 1)]
    return lambda: test(stored)


def spotify_peer(case: str, source: str) -> Callable[[], object]:
    warnings.simplefilter("ignore")
    import pandas as pd
    import spotify_confidence as confidence
    from spotify_confidence.analysis.frequentist.sequential_bound_solver import bounds

    if case == "boundaries_30_looks":
        fractions = np.arange(1, 31) / 30
        return lambda: bounds(fractions, alpha=0.05, rho=2, ztrun=8, sides=2)

    def test(units: pd.DataFrame) -> object:
        units = units.assign(square=units["score"] ** 2, one=1)
        total = units.groupby("arm")[["score", "square", "one"]].sum().reset_index()
        tool = confidence.StudentsTTest(
            total,
            numerator_column="score",
            numerator_sum_squares_column="square",
            denominator_column="one",
            categorical_group_columns="arm",
            interval_size=0.95,
        )
        return tool.difference(level_1=0, level_2=1)

    data = np.load(source)
    if case == "evaluate_from_rows":
        parts = [
            pd.DataFrame({"arm": a, "unit": data[f"unit{a}"], "score": data[f"score{a}"]}) for a in (0, 1)
        ]
        frame = pd.concat(parts, ignore_index=True)
        return lambda: test(frame.groupby(["arm", "unit"])["score"].mean().reset_index())
    parts = [pd.DataFrame({"arm": a, "n": data[f"n{a}"], "total": data[f"total{a}"]}) for a in (0, 1)]
    stored = pd.concat(parts, ignore_index=True)
    return lambda: test(stored.assign(score=stored["total"] / stored["n"]))


SIDES = {"ours": ours, "scipy": scipy_peer, "spotify-confidence": spotify_peer}
PEERS = {
    "boundaries_30_looks": ("spotify-confidence",),
    "one_look_update": (),
    "evaluate_from_sums": ("scipy", "spotify-confidence"),
    "evaluate_from_rows": ("scipy", "spotify-confidence"),
}
ROUNDS = 3
REPEATS = {"boundaries_30_looks": 7, "evaluate_from_rows": 5}


def run_side(side: str, case: str, source: str) -> list[float] | str:
    """CPU seconds of the repeats in a process of its own, or why there are none."""
    python = PEER if side == "spotify-confidence" else sys.executable
    command = [python, __file__, "--side", side, "--case", case, "--source", source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no output"
        return f"{side} did not run ({last})"
    return [float(t) for t in json.loads(done.stdout.strip().splitlines()[-1])]


def spread_of(taken: list[float]) -> tuple[float, float]:
    """Median, and the width of the middle half."""
    low, middle, high = statistics.quantiles(taken, n=4)
    return middle, high - low


def peer_version(package: str) -> str:
    if package == "spotify-confidence" and sys.executable != PEER:
        code = f"from importlib.metadata import version; print(version({package!r}))"
        done = subprocess.run([PEER, "-c", code], capture_output=True, text=True, check=False)
        return done.stdout.strip() or "not installed"
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def measure(case: str, source: str) -> list[dict[str, object]]:
    taken: dict[str, list[float]] = {}
    reasons: dict[str, str] = {}
    for _ in range(ROUNDS):
        for side in ("ours", *PEERS[case]):
            found = run_side(side, case, source)
            if isinstance(found, str):
                reasons[side] = found
            else:
                taken.setdefault(side, []).extend(found)
    if "ours" not in taken:
        raise SystemExit(reasons["ours"])
    mine, width = spread_of(taken["ours"])
    lines = []
    for peer in PEERS[case] or ("none",):
        known = spread_of(taken[peer]) if peer in taken else None
        lines.append(
            {
                "bench": "stats",
                "case": case,
                "unit": "s CPU",
                "ours": round(mine, 6),
                "limit": LIMITS[case],
                "peer": round(known[0], 6) if known else None,
                "peer_name": peer,
                "ratio_to_limit": round(mine / LIMITS[case], 4),
                "ratio_to_peer": round(mine / known[0], 4) if known else None,
                "n": SESSIONS if case.startswith("evaluate") else 30,
                "spread": round(width, 6),
                "peer_spread": round(known[1], 6) if known else None,
                "note": reasons.get(peer, "no peer does this" if peer == "none" else ""),
                "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
                "versions": {p: peer_version(p) for p in ("numpy", "scipy", "spotify-confidence")},
            }
        )
    return lines


def write_source(path: str) -> None:
    arm, unit, score = rows()
    held = {}
    for a, (n, total) in enumerate(columns(arm, unit, score)):
        held |= {f"n{a}": n, f"total{a}": total, f"unit{a}": unit[arm == a], f"score{a}": score[arm == a]}
    np.savez(path, **held)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--case", choices=CASES, action="append", help="only this case (may be repeated)")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--source", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        (case,) = options.case
        print(json.dumps(timed(SIDES[options.side](case, options.source), REPEATS.get(case, 31))))
        return
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "rows.npz")
        write_source(source)
        for case in options.case or CASES:
            for line in measure(case, source):
                if options.json:
                    print(json.dumps(line))
                else:
                    print(_told(line))


def _told(line: dict[str, object]) -> str:
    own = f"ours {line['ours']} s (middle half {line['spread']}), limit {line['limit']} s"
    if line["peer"] is None:
        return f"{line['case']:22} {own}, {line['note']}"
    peer = f"{line['peer_name']} {line['peer']} s ({line['peer_spread']})"
    return f"{line['case']:22} {own}, {peer}, ratio {line['ratio_to_peer']}"


if __name__ == "__main__":
    main()
