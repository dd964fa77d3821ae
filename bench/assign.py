"""CPU time of one assignment, beside bare keyed hashes and the GrowthBook SDK in the same run.

`python bench/assign.py` prints lines to read; `--json` one JSON object per line. The limit is what we claim:
a fifth of GrowthBook's time. GrowthBook may live in another interpreter that also sees this package:
`PRX_PEER_PYTHON=/path/to/python` (default: this one); where it is not installed it is left out in words. It
is given its cheapest form: one client, one experiment object, no callback.
"""

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

PEER = os.environ.get("PRX_PEER_PYTHON", sys.executable)
UNITS = 20_000
ROUNDS = 7
SPLIT = 0.5
CASES = {"assign_full_ramp": 1.0, "assign_half_ramp": 0.5}


def units() -> list[str]:
    """Units of one run; each is hashed once per round, so nothing can be remembered usefully."""
    return [f"user-{n}" for n in range(UNITS)]


def ours(ramp: float) -> Callable[[str], object]:
    from prx.domain.layers import Layer
    from prx.domain.serving import ServedExperiment
    from prx.live.assign import assign

    experiment = ServedExperiment(
        experiment_id="bench",
        layer=Layer.PROMPT,
        ramp=ramp,
        traffic_split=SPLIT,
        ramp_salt="r",
        variant_salt="v",
    )
    return lambda unit: assign(unit, experiment)


def bare(ramp: float) -> Callable[[str], object]:
    """The two hashes that an assignment with separate salts cannot do without."""

    edge = int(ramp * 2**64)

    def both(unit: str) -> bool:
        body = unit.encode()
        inside = int.from_bytes(hashlib.blake2b(body, key=b"r", digest_size=8).digest(), "big")
        variant = int.from_bytes(hashlib.blake2b(body, key=b"v", digest_size=8).digest(), "big")
        return inside < edge and variant < 1 << 63

    return both


def growthbook(ramp: float) -> Callable[[str], object]:
    from growthbook import Experiment, GrowthBook

    client = GrowthBook(attributes={"id": ""})
    experiment = Experiment(
        key="bench",
        variations=["control", "treatment"],
        weights=[1 - SPLIT, SPLIT],
        coverage=ramp,
        hashVersion=2,
    )

    def run(unit: str) -> object:
        client.set_attributes({"id": unit})
        return client.run(experiment).value

    return run


WORK = {"ours": ours, "bare": bare, "peer": growthbook}


def seconds(work: Callable[[str], object]) -> float:
    """CPU seconds for one unit, over all units."""
    population = units()
    begin = time.process_time()
    for unit in population:
        work(unit)
    return (time.process_time() - begin) / UNITS


def round_elsewhere(name: str, ramp: float) -> float | None:
    """One round of `name` in the peer's interpreter; None when the peer is not installed there."""
    command = [PEER, __file__, "--one", name, "--ramp", str(ramp)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return float(done.stdout) if done.returncode == 0 else None


def measure(case: str) -> dict[str, Any]:
    """All three, taking turns, each round in a fresh process of the same interpreter."""
    taken: dict[str, list[float]] = {name: [] for name in WORK}
    for _ in range(ROUNDS):
        for name, rounds in taken.items():
            found = round_elsewhere(name, CASES[case])
            if found is not None:
                rounds.append(found)
    if not taken["ours"]:
        raise SystemExit(f"{PEER} cannot import prx; set PYTHONPATH or PRX_PEER_PYTHON")
    middle = {name: statistics.median(rounds) if rounds else None for name, rounds in taken.items()}
    mine, least, peer = middle["ours"], middle["bare"], middle["peer"]
    limit = peer / 5 if peer else None
    return {
        "bench": "assign",
        "case": case,
        "unit": "s",
        "ours": mine,
        "limit": limit,
        "peer": peer,
        "peer_name": "growthbook",
        "ratio_to_limit": mine / limit if mine and limit else None,
        "ratio_to_peer": mine / peer if mine and peer else None,
        "bare_hashes": least,
        "n": UNITS * ROUNDS,
        "spread": max(taken["ours"]) - min(taken["ours"]),
        "note": "" if peer else "growthbook is not installed",
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "versions": {"growthbook": peer_version()},
    }


def peer_version() -> str:
    """Version of GrowthBook in the peer's interpreter, or that it is missing."""
    try:
        return version("growthbook")
    except PackageNotFoundError:
        pass
    code = "from importlib.metadata import version; print(version('growthbook'))"
    done = subprocess.run([PEER, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "not installed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--one", choices=sorted(WORK), help="one round, CPU seconds per unit (used inside)")
    parser.add_argument("--ramp", type=float, default=1.0)
    options = parser.parse_args()
    if options.one:
        print(seconds(WORK[options.one](options.ramp)))
        return
    for case in CASES:
        line = measure(case)
        if options.json:
            print(json.dumps(line))
            continue
        peer = f"{line['peer'] * 1e6:.2f} us" if line["peer"] else line["note"]
        print(
            f"{case:18} ours {line['ours'] * 1e6:.2f} us, bare hashes {line['bare_hashes'] * 1e6:.2f} us, "
            f"growthbook {peer}"
        )


if __name__ == "__main__":
    main()
