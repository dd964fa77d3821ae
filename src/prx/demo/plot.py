"""Fitness over simulated days as rows of a terminal."""

from collections.abc import Mapping, Sequence

_LEAST_SPAN = 0.05


def fitness_plot(daily: Sequence[float | None], marks: Mapping[int, str], *, width: int) -> str:
    """One row per day: the fitness (`-` without a score) and a bar from the lowest to the highest day.

    `marks`: what happened on a day, written behind its bar.
    """
    known = [value for value in daily if value is not None]
    if not known:
        return "no day has a fitness score"
    low = min(known) - _LEAST_SPAN / 5
    span = max(max(known) - low, _LEAST_SPAN)
    room = max(10, width - 40)
    rows = ["fitness per simulated day"]
    for day, value in enumerate(daily, start=1):
        shown = "-" if value is None else f"{value:.3f}"
        bar = "" if value is None else "#" * max(1, round((value - low) / span * room))
        mark = f"  {marks[day]}" if day in marks else ""
        rows.append(f"day {day:>3}  {shown:>5}  {bar}{mark}")
    return "\n".join(rows)
