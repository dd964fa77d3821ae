"""How the difference of two arms went over the looks: in the terminal, and as an SVG file."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from prx.cli.text.words import moment, signed
from prx.domain.experiments import Experiment, Look

_LABEL = 24
_MARGIN = 0.05


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps differences to 0..1 from left to right; always holds 0 and the smallest effect."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Position of a value, clipped to the scale."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def measured(experiment: Experiment) -> tuple[Look, ...]:
    """Looks that have a difference."""
    return tuple(look for look in experiment.looks if look.difference is not None)


def scale_of(looks: Sequence[Look], delta: float) -> Scale:
    """A scale that holds every estimate, every finite interval, 0 and the smallest effect."""
    values = [0.0, delta, *(one.difference for one in looks if one.difference is not None)]
    values += [edge for one in looks for edge in (one.low, one.high) if edge is not None]
    low, high = min(values), max(values)
    room = (high - low) * _MARGIN or 0.01
    return Scale(low - room, high + room)


def chart_text(experiment: Experiment, width: int | None) -> str:
    """One row per look: the interval, the estimate `o`, no effect `|`, the smallest effect `:`."""
    looks, delta = measured(experiment), _delta(experiment)
    if not looks:
        return "no look has a difference yet; there is nothing to plot"
    scale, room = scale_of(looks, delta), max(20, (width or 100) - _LABEL - 1)
    rows = [_row(look, scale, delta, room) for look in looks]
    edges = f"{signed(scale.low)}{signed(scale.high).rjust(room - len(signed(scale.low)))}"
    legend = f"o treatment minus control  --- interval  | no effect  : smallest effect {signed(delta)}"
    return "\n".join((*rows, " " * _LABEL + edges, legend))


def _row(look: Look, scale: Scale, delta: float, room: int) -> str:
    cells = [" "] * room

    def mark(value: float, sign: str) -> None:
        cells[round(scale.place(value) * (room - 1))] = sign

    if look.low is not None and look.high is not None:
        start, end = (round(scale.place(edge) * (room - 1)) for edge in (look.low, look.high))
        cells[start : end + 1] = "-" * (end + 1 - start)
    mark(0.0, "|")
    mark(delta, ":")
    mark(look.difference or 0.0, "o")
    label = f"{look.number:>3}  {moment(look.at)[5:]} {signed(look.difference)}"
    return label.ljust(_LABEL) + "".join(cells).rstrip()


_WIDTH, _ROW, _TOP, _LEFT, _RIGHT = 720, 22, 56, 170, 24


def chart_svg(experiment: Experiment) -> str:
    """The same as a stand-alone SVG picture with a title and a description for screen readers."""
    looks, delta = measured(experiment), _delta(experiment)
    scale = scale_of(looks, delta)
    height = _TOP + _ROW * max(1, len(looks)) + 40

    def x(value: float) -> float:
        return round(_LEFT + scale.place(value) * (_WIDTH - _LEFT - _RIGHT), 1)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        'font-family="sans-serif" font-size="12">',
        f"<title>Experiment {escape(experiment.experiment_id)}</title>",
        f"<desc>Treatment minus control in fitness points at {len(looks)} looks, with intervals.</desc>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="22" font-weight="bold">{escape(experiment.layer.label)} experiment '
        f"{escape(experiment.experiment_id)}</text>",
        '<text x="16" y="40" fill="#555555">treatment minus control, fitness points</text>',
        _rule(x(0.0), height - 30, "#222222", "no effect"),
        _rule(x(delta), height - 30, "#1a7f37", f"smallest effect {signed(delta)}", "4 3"),
    ]
    for position, look in enumerate(looks):
        y = _TOP + _ROW * position + 12
        lines.append(f'<text x="16" y="{y + 4}">{look.number}  {moment(look.at)}</text>')
        if look.low is not None and look.high is not None:
            lines.append(
                f'<line x1="{x(look.low)}" x2="{x(look.high)}" y1="{y}" y2="{y}" '
                'stroke="#0969da" stroke-width="3"/>'
            )
        lines.append(f'<circle cx="{x(look.difference or 0.0)}" cy="{y}" r="5" fill="#0969da"/>')
    if not looks:
        lines.append(f'<text x="16" y="{_TOP + 16}">no look yet</text>')
    return "\n".join((*lines, "</svg>", ""))


def _rule(x: float, bottom: int, colour: str, label: str, dash: str = "") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x}" x2="{x}" y1="{_TOP - 8}" y2="{bottom}" stroke="{colour}"{dashes}/>'
        f'<text x="{x}" y="{bottom + (14 if not dash else 26)}" text-anchor="middle" fill="{colour}">'
        f"{escape(label)}</text>"
    )


def _delta(experiment: Experiment) -> float:
    return experiment.plan.delta if experiment.plan else 0.02
