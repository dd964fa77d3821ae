"""Decimals as people round them: half up, free of the noise of binary fractions."""

from decimal import ROUND_HALF_UP, Decimal

_NOISE = Decimal("1e-12")


def exact(value: float) -> Decimal:
    """`value` as the decimal that a person would write, noise beyond 12 places removed."""
    return Decimal(repr(value)).quantize(_NOISE, ROUND_HALF_UP)


def rounded(value: Decimal | float, places: int) -> str:
    """`value` with `places` decimals, halves away from zero; never "-0.00"."""
    number = value if isinstance(value, Decimal) else exact(value)
    shown = number.quantize(_NOISE, ROUND_HALF_UP).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return f"{abs(shown) if shown == 0 else shown}"
