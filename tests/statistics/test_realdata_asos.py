"""Every series of the ASOS Digital Experiments Dataset (CC BY 4.0), replayed look by look."""

import csv
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from prx.domain.answers import NotEnoughData
from prx.stats.anytime import critical_z
from prx.stats.stopping import Design, look, start
from prx.stats.tails import t_to_z
from prx.stats.twosample import Moments, Welch, welch_from_moments

FILE = (
    Path(__file__).resolve().parents[3] / "shared" / "data" / "dev" / "asos_sequential_experiments_dev.csv.gz"
)
NAIVE = 1.959963984540054


@dataclass(frozen=True)
class Replay:
    """Which rule called the series significant at some look, and whether the last look is so by itself."""

    looks: int
    naive: bool
    sequential: bool
    anytime: bool
    at_end: bool


@pytest.fixture(scope="module")
def series() -> list[list[dict[str, str]]]:
    if not FILE.exists():
        pytest.skip(f"the ASOS data are not at {FILE}")
    found: dict[tuple[str, ...], list[dict[str, str]]] = {}
    with gzip.open(FILE, "rt", newline="") as rows:
        for row in csv.DictReader(rows):
            found.setdefault((row["experiment_id"], row["variant_id"], row["metric_id"]), []).append(row)
    return list(found.values())


def snapshots(rows: list[dict[str, str]]) -> list[tuple[float, Welch]]:
    """Hours and test of each snapshot that has enough data; the others are typed answers, and skipped."""
    taken = []
    for row in rows:
        if "" in (row["variance_c"], row["variance_t"]):
            continue
        arms = [
            Moments(int(float(row[f"count_{a}"])), float(row[f"mean_{a}"]), float(row[f"variance_{a}"]))
            for a in "ct"
        ]
        found = welch_from_moments(*arms)
        if not isinstance(found, NotEnoughData):
            taken.append((24 * float(row["time_since_start"]), found))
    return taken


def replay(rows: list[dict[str, str]]) -> Replay | None:
    taken = snapshots(rows)
    if not taken:
        return None
    information = [test.se**-2 for _, test in taken]
    design = Design(max_information=information[-1])
    state = start(design)
    for k, (hours, test) in enumerate(taken):
        if not state.ended:
            z = t_to_z(test.statistic, test.df)
            state = look(design, state, information[k], z, hours=hours, final=k == len(taken) - 1)
    zs = [t_to_z(test.statistic, test.df) for _, test in taken]
    limits = [critical_z(i, planned_information=information[-1]) for i in information]
    return Replay(
        looks=len(taken),
        naive=any(abs(z) > NAIVE for z in zs),
        sequential=any(k.crossed != "none" for k in state.looks),
        anytime=any(abs(z) > limit for z, limit in zip(zs, limits, strict=True)),
        at_end=abs(zs[-1]) > NAIVE,
    )


def shares(found: list[Replay]) -> dict[str, float]:
    """Share of series called significant at some look, and of those not so at the end, by rule."""
    rules = {"peeking": "naive", "group sequential": "sequential", "anytime": "anytime"}
    told = {f"{rule}: at some look": [getattr(r, field) for r in found] for rule, field in rules.items()}
    told |= {
        f"{rule}: at some look but not at the end": [getattr(r, field) and not r.at_end for r in found]
        for rule, field in rules.items()
    }
    told["at the end"] = [r.at_end for r in found]
    return {name: sum(values) / len(found) for name, values in told.items()}


def test_a_tenth_of_the_series_is_replayed(series: list[list[dict[str, str]]]) -> None:
    assert all(replay(rows) is not None for rows in series[::10])


@pytest.mark.slow
def test_every_series_is_replayed_and_peeking_calls_what_the_end_takes_back(
    series: list[list[dict[str, str]]], record_property: Callable[[str, object], None]
) -> None:
    found = [r for r in map(replay, series) if r is not None]
    assert len(found) == len(series) == 200
    told = shares(found)
    record_property("asos", told)
    peeking = told["peeking: at some look but not at the end"]
    assert peeking > 0.20, f"peeking must show its harm on real series, else the replay is broken: {told}"
    assert told["group sequential: at some look but not at the end"] < peeking / 2, told
    assert told["anytime: at some look but not at the end"] < peeking / 2, told
