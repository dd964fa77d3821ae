"""Fitness over simulated days, drawn with characters."""

from collections.abc import Mapping, Sequence

_ROWS = 8
_LEAST_SPAN = 0.04


def fitness_plot(daily: Sequence[float | None], marks: Mapping[int, str], *, width: int) -> str:
    """One column per day, or per few days where `width` is short; a gap where there is no score.

    `marks`: what happened on a day; numbers below the columns lead to a legend.
    """
    room = max(10, width - 9)
    step = max(1, -(-len(daily) // room))
    columns = [_mean(daily[k : k + step]) for k in range(0, len(daily), step)]
    known = [value for value in columns if value is not None]
    if not known:
        return "no day has a fitness score"
    low = min(known) - _LEAST_SPAN / 10
    span = max(max(known) - low, _LEAST_SPAN)
    rows = ["measured fitness per day" if step == 1 else f"measured fitness per {step} days"]
    for row in range(_ROWS, 0, -1):
        floor = low + span * (row - 1) / _ROWS
        label = f"{low + span * row / _ROWS:.3f}" if row in (1, _ROWS) else ""
        bars = "".join("#" if value is not None and value > floor else " " for value in columns)
        rows.append(f"{label:>7} {bars}".rstrip())
    under, legend = _legend(marks, step, len(columns))
    return "\n".join([*rows, f"{'':7} {under}".rstrip(), *legend])


def _legend(marks: Mapping[int, str], step: int, count: int) -> tuple[str, list[str]]:
    under, legend = [" "] * count, []
    for number, day in enumerate(sorted(marks), start=1):
        sign = str(number % 10)
        under[min(count - 1, max(0, (day - 1) // step))] = sign
        legend.append(f"{'':7} {sign} day {day}: {marks[day]}")
    return "".join(under), legend


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
