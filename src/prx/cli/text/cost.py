"""The cost of evolution as text."""

from prx.cli.output import Column, blocks, pairs, table
from prx.cli.text.words import count, number, percent, titled
from prx.domain.answers import NotEnoughData
from prx.views.cost import Cost

_COLUMNS = (
    Column("Role"),
    Column("Calls", right=True),
    Column("Failed", right=True),
    Column("Tokens in", right=True),
    Column("Tokens out", right=True),
    Column("USD", right=True),
)


def cost_text(found: Cost, width: int | None, *, forecast: bool) -> str:
    """What `prx evolution cost` prints."""
    rows = [
        (
            one.role,
            str(one.calls),
            str(one.failed),
            str(one.input_tokens),
            str(one.output_tokens),
            _usd(one.usd),
        )
        for one in found.roles
    ]
    spent = table(_COLUMNS, rows, width) if rows else "no model was called for evolution this month"
    failed = sum(one.failed for one in found.roles)
    facts = [
        ("Month", f"{found.month} (UTC), agent {found.agent}"),
        ("Spent", f"{_usd(found.usd)} USD"),
        ("Limit", _limit(found)),
        ("State", found.state if found.used is None else f"{found.state} ({percent(found.used)} used)"),
    ]
    if failed:
        facts.append(("Not counted", f"{count(failed, 'failed call')}, whose price is not known"))
    parts = [pairs(facts, width), spent]
    if forecast:
        heading = found.forecast_usd
        told = (
            f"not enough data ({heading.why})"
            if isinstance(heading, NotEnoughData)
            else f"{_usd(heading)} USD at the end of the month, at the pace so far"
        )
        parts.append(pairs((("Forecast", told + _against(found)),), width))
        if found.months:
            earlier = [(month, _usd(usd)) for month, usd in found.months]
            parts.append(
                titled("Months before", table((Column("Month"), Column("USD", right=True)), earlier, width))
            )
    return blocks(*parts)


def _limit(found: Cost) -> str:
    if found.limit_usd is None:
        return "none ([self_evolution.budget] monthly_usd)"
    which = "monthly_usd" if found.limit_usd == found.monthly_usd else "max_share_of_serving"
    return f"{_usd(found.limit_usd)} USD ({which})"


def _against(found: Cost) -> str:
    if found.limit_usd is None or isinstance(found.forecast_usd, NotEnoughData):
        return ""
    word = "above" if found.forecast_usd > found.limit_usd else "within"
    return f"; {word} the limit of {_usd(found.limit_usd)} USD"


def _usd(value: float) -> str:
    return number(value, 2) if value >= 1 or value == 0 else number(value, 4)
