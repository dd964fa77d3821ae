"""Mergeable sums per randomised unit: all that a conclusion needs, whatever the order of events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prx.domain.errors import BadStatistics

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_GRID = 2.0**32
_CHUNK = 1 << 15
_SLACK = 1e-6


def on_grid(score: float) -> float:
    """`score` to the nearest multiple of 2**-32, so that sums below 2**21 are exact in any order.

    Floating-point addition is not associative; on this grid it is, which lets a conclusion be
    recomputed bit for bit after crash, replay and late events. Raises: BadStatistics.
    """
    if not np.isfinite(score):
        raise BadStatistics(f"a score is {score}; leave a missing score out instead")
    return round(score * _GRID) / _GRID


@dataclass(frozen=True, slots=True)
class UnitSum:
    """Scored sessions of one unit in one dimension and their summed score; `+` pools disjoint sessions."""

    n: int = 0
    total: float = 0.0

    def __post_init__(self) -> None:
        if self.n < 0 or not np.isfinite(self.total) or (self.n == 0 and self.total != 0):
            raise BadStatistics(
                f"{self.n} sessions with a total of {self.total} are no sum; count each scored session once"
            )

    def __add__(self, other: "UnitSum") -> "UnitSum":
        return UnitSum(self.n + other.n, self.total + other.total)

    @classmethod
    def of(cls, score: float) -> "UnitSum":
        """One scored session."""
        return cls(1, on_grid(score))


ArmSums = Mapping[str, Mapping[str, UnitSum]]
"""dimension -> unit -> sums, for one arm (and one stratum)."""


@dataclass(frozen=True, slots=True, eq=False)
class ArmTable:
    """The sums of one arm as columns; one row per unit and stratum.

    unit: code in 0..units-1 of each row; stratum: base number of each row, shared by both arms;
    sessions: all sessions of the row, scored or not; n, total: per dimension, scored sessions and
    their summed score. Rows come in unit order, so equal sums give bit-equal results.
    """

    units: int
    unit: Ints
    stratum: Ints
    sessions: Ints
    n: Mapping[str, Ints]
    total: Mapping[str, Floats]

    @property
    def dimensions(self) -> tuple[str, ...]:
        return tuple(self.n)

    def coverage(self, dimension: str) -> float:
        """Share of the arm's sessions that carry a score in this dimension, 0..1 (0 without sessions)."""
        every = int(self.sessions.sum())
        return int(self.n[dimension].sum()) / every if every else 0.0

    def only(self, stratum: int) -> "ArmTable":
        """The rows of one stratum, such as the time since the last base change."""
        keep = self.stratum == stratum
        codes, unit = np.unique(self.unit[keep], return_inverse=True)
        return ArmTable(
            units=len(codes),
            unit=unit.astype(np.int64),
            stratum=self.stratum[keep],
            sessions=self.sessions[keep],
            n={d: v[keep] for d, v in self.n.items()},
            total={d: v[keep] for d, v in self.total.items()},
        )

    @classmethod
    def from_sums(
        cls,
        *strata: ArmSums,
        sessions: Sequence[Mapping[str, int]] | None = None,
        bounds: tuple[float, float] | None = (0.0, 1.0),
    ) -> "ArmTable":
        """Columns of the arm's sums, one `ArmSums` per stratum in order of time.

        sessions: per stratum, all sessions of each unit; without it a unit's sessions are its largest
        scored count. bounds: range of one score, None for an unbounded metric. Raises: BadStatistics.
        """
        dimensions = sorted({d for sums in strata for d in sums})
        told = sessions if sessions is not None else [{} for _ in strata]
        if len(told) != len(strata):
            raise BadStatistics(f"{len(told)} session counts for {len(strata)} strata; give one per stratum")
        keys = sorted(
            {
                (unit, s)
                for s, (sums, counts) in enumerate(zip(strata, told, strict=True))
                for unit in {*counts, *(u for units in sums.values() for u in units)}
            }
        )
        codes = {unit: code for code, unit in enumerate(sorted({unit for unit, _ in keys}))}
        none = UnitSum()
        cells = {d: [strata[s].get(d, {}).get(unit, none) for unit, s in keys] for d in dimensions}
        n = {d: np.array([c.n for c in cells[d]], dtype=np.int64) for d in dimensions}
        total = {d: np.array([c.total for c in cells[d]], dtype=np.float64) for d in dimensions}
        least = np.max([*n.values(), np.zeros(len(keys), np.int64)], axis=0)
        given = np.array([told[s].get(unit, 0) for unit, s in keys], dtype=np.int64)
        return cls.from_columns(
            unit=np.array([codes[unit] for unit, _ in keys], dtype=np.int64),
            units=len(codes),
            stratum=np.array([s for _, s in keys], dtype=np.int64),
            sessions=given if sessions is not None else least,
            n=n,
            total=total,
            bounds=bounds,
        )

    @classmethod
    def from_rows(
        cls,
        unit: ArrayLike,
        scores: Mapping[str, ArrayLike],
        *,
        scored: Mapping[str, ArrayLike] | None = None,
        stratum: ArrayLike | None = None,
        bounds: tuple[float, float] | None = (0.0, 1.0),
    ) -> "ArmTable":
        """Columns from one row per session.

        unit: unit of each session (integers are fastest); scores: per dimension, one value per session;
        scored: per dimension, which of them exist (all, if the dimension is not named); stratum: base
        number of each session. Scores are put `on_grid`, so the order of rows does not matter.
        Raises: BadStatistics.
        """
        codes = _coded(np.asarray(unit))
        layer = None if stratum is None else np.asarray(stratum, dtype=np.int64)
        if layer is not None and (len(layer) != len(codes) or (len(layer) and int(layer.min()) < 0)):
            raise BadStatistics("every session needs one stratum number, 0 or above")
        strata = int(layer.max()) + 1 if layer is not None and len(layer) else 1
        cell = codes if layer is None else codes * strata + layer
        every = np.bincount(cell)
        used: Ints | slice = slice(None) if every.all() else np.flatnonzero(every)
        n: dict[str, Ints] = {}
        total: dict[str, Floats] = {}
        for dimension, values in scores.items():
            score = np.asarray(values, dtype=np.float64)
            mask = None if scored is None or dimension not in scored else np.asarray(scored[dimension], bool)
            if len(score) != len(codes) or (mask is not None and len(mask) != len(codes)):
                raise BadStatistics(f"{dimension} has {len(score)} values for {len(codes)} sessions")
            where = cell if mask is None else cell[mask]
            kept = score if mask is None else score[mask]
            _check_scores(dimension, kept, bounds)
            n[dimension] = (every if mask is None else np.bincount(where, minlength=len(every)))[used]
            total[dimension] = _summed_on_grid(where, kept, len(every))[used]
        sessions = every[used]
        if strata == 1:
            size = len(sessions)
            return cls(size, np.arange(size), np.broadcast_to(np.int64(0), size), sessions, n, total)
        seen = np.flatnonzero(every)
        names, rows = np.unique(seen // strata, return_inverse=True)
        return cls(len(names), rows.astype(np.int64), seen % strata, sessions, n, total)

    @classmethod
    def from_columns(
        cls,
        *,
        n: Mapping[str, ArrayLike],
        total: Mapping[str, ArrayLike],
        sessions: ArrayLike,
        unit: ArrayLike | None = None,
        units: int | None = None,
        stratum: ArrayLike | None = None,
        bounds: tuple[float, float] | None = (0.0, 1.0),
    ) -> "ArmTable":
        """Columns as stored, checked; without `unit` every row is its own unit. Raises: BadStatistics."""
        every = np.asarray(sessions, dtype=np.int64)
        rows = len(every)
        code = np.arange(rows, dtype=np.int64) if unit is None else np.asarray(unit, dtype=np.int64)
        layer = np.zeros(rows, np.int64) if stratum is None else np.asarray(stratum, dtype=np.int64)
        count = {d: np.asarray(v, dtype=np.int64) for d, v in n.items()}
        summed = {d: np.asarray(v, dtype=np.float64) for d, v in total.items()}
        size = units if units is not None else (int(code.max()) + 1 if rows else 0)
        if count.keys() != summed.keys() or any(
            len(v) != rows for v in (code, layer, *count.values(), *summed.values())
        ):
            raise BadStatistics("the columns of an arm differ in length or in dimensions; read them again")
        if rows and (
            int(every.min()) < 0 or int(code.min()) < 0 or int(layer.min()) < 0 or code.max() >= size
        ):
            raise BadStatistics("a session count, unit code or stratum of an arm is out of range")
        if unit is not None and rows:
            cells = np.unique(code * (int(layer.max()) + 1) + layer)
            if len(cells) != rows:
                raise BadStatistics("a unit has two rows in one stratum; add its sums first")
        for dimension, counted in count.items():
            _check_sums(dimension, counted, summed[dimension], every, bounds)
        return cls(size, code, layer, every, count, summed)


def as_table(arm: ArmTable | ArmSums) -> ArmTable:
    """The columns of an arm given either way."""
    return arm if isinstance(arm, ArmTable) else ArmTable.from_sums(arm)


def summed_by(code: Ints, values: NDArray[Any], size: int) -> Floats:
    """Sum of `values` per code in 0..size-1."""
    return np.asarray(np.bincount(code, weights=values, minlength=size), dtype=np.float64)


def _coded(unit: NDArray[Any]) -> Ints:
    """Whole numbers from 0 that stand for the units; gaps are fine while the largest stays near n."""
    if unit.ndim != 1:
        raise BadStatistics("units come as one flat column, one entry per session")
    if not len(unit):
        return np.zeros(0, np.int64)
    if unit.dtype.kind in "iu" and int(unit.min()) >= 0 and int(unit.max()) < 4 * len(unit) + 1024:
        return unit.astype(np.int64, copy=False)
    return np.unique(unit, return_inverse=True)[1].astype(np.int64)


def _summed_on_grid(code: Ints, score: Floats, size: int) -> Floats:
    """Sum of `on_grid(score)` per code: whole numbers add up exactly, a power of two scales exactly."""
    summed = np.zeros(size)
    buffer = np.empty(min(len(score), _CHUNK))
    # In pieces, because fresh memory for a million scores costs more than adding them.
    for start in range(0, len(score), _CHUNK):
        piece = score[start : start + _CHUNK]
        scaled = buffer[: len(piece)]
        np.multiply(piece, _GRID, out=scaled)
        np.add.at(summed, code[start : start + _CHUNK], np.rint(scaled, out=scaled))
    summed /= _GRID
    return summed


def _check_scores(dimension: str, score: Floats, bounds: tuple[float, float] | None) -> None:
    if not len(score):
        return
    low, high = float(score.min()), float(score.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise BadStatistics(f"{dimension} holds NaN or infinity; mark a missing score as not scored")
    if bounds is not None and not (bounds[0] <= low and high <= bounds[1]):
        raise BadStatistics(
            f"{dimension} holds scores from {low} to {high}, outside {bounds[0]} to {bounds[1]}"
        )


def _check_sums(
    dimension: str, n: Ints, total: Floats, sessions: Ints, bounds: tuple[float, float] | None
) -> None:
    if len(n) and (int(n.min()) < 0 or bool((n > sessions).any())):
        raise BadStatistics(
            f"{dimension} counts more scored sessions than a unit has; count each session once"
        )
    if not np.isfinite(total).all() or bool((total[n == 0] != 0).any()):
        raise BadStatistics(f"{dimension} holds NaN, infinity, or a total without sessions")
    if bounds is not None and bool(
        ((total < bounds[0] * n - _SLACK) | (total > bounds[1] * n + _SLACK)).any()
    ):
        raise BadStatistics(f"{dimension} holds a unit whose mean lies outside {bounds[0]} to {bounds[1]}")
