"""One day on one page."""

from prx.cli.output import blocks, clean, pairs, wrapped
from prx.cli.text.decided import decisions_text
from prx.cli.text.found import findings_text, incidents_text
from prx.cli.text.words import count, number, percent
from prx.domain.answers import NotEnoughData
from prx.views.digest import Digest


def digest_text(found: Digest, width: int | None) -> str:
    """What `prx evolution digest` prints."""
    fitness = found.fitness
    shown = (
        f"not enough data ({fitness.why})"
        if isinstance(fitness, NotEnoughData)
        else f"{number(fitness.score, 2)}, coverage {percent(fitness.coverage)}"
    )
    failed = percent(found.failed / found.sessions) if found.sessions else "-"
    head = pairs(
        (
            ("Agent", found.agent),
            ("Day", f"{found.day.isoformat()} (UTC)"),
            ("Sessions", f"{found.sessions}, {found.failed} failed ({failed})"),
            ("Tokens", f"{found.tokens:,}"),
            ("Cost", f"{number(found.cost_usd, 2)} USD"),
            ("Fitness", shown),
            ("Seen again", count(found.seen_again, "older finding") if found.seen_again else ""),
        ),
        width,
    )
    worst_first = sorted(found.findings, key=lambda one: -one.severity)
    events = "\n".join(
        wrapped(f"{one.at:%H:%M}  {one.name.rsplit('.', 1)[1]}: {clean(one.summary)}", width, hanging=" " * 7)
        for one in found.events
    )
    return blocks(
        head,
        _part(
            count(len(found.findings), "new finding"),
            findings_text(worst_first, width),
            found.findings,
        ),
        _part(
            count(len(found.decisions), "decision"), decisions_text(found.decisions, width), found.decisions
        ),
        _part(
            count(len(found.incidents), "incident"), incidents_text(found.incidents, width), found.incidents
        ),
        _part(count(len(found.events), "event"), events, found.events),
    )


def _part(title: str, text: str, rows: tuple[object, ...]) -> str:
    return f"{title}\n\n{text}" if rows else ""
