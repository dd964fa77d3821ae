"""Parameter types that the commands share."""

from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeVar

import click

from prx.domain.errors import InvalidInput
from prx.domain.layers import Layer, parse_layer
from prx.domain.times import parse_duration

E = TypeVar("E", bound=StrEnum)
_LONGEST = timedelta(days=99_999)
_MOST_ROWS = 2**31 - 1


class LayerType(click.ParamType[Layer]):
    """A layer in any spelling."""

    name = "layer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Layer:
        """The layer, or a usage error that names the three."""
        if isinstance(value, Layer):
            return value
        try:
            return parse_layer(str(value))
        except InvalidInput as error:
            self.fail(str(error), param, ctx)


class DurationType(click.ParamType[timedelta]):
    """A span of time such as 30d."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """The span, or a usage error that shows the form."""
        if isinstance(value, timedelta):
            return value
        try:
            span = parse_duration(str(value))
        except InvalidInput as error:
            self.fail(str(error), param, ctx)
        if span > _LONGEST:
            self.fail(f"{str(value)!r} is longer than any record; use at most {_LONGEST.days}d", param, ctx)
        return span


class CountType(click.IntRange):
    """How many rows at most, from 1 on; more than any store can hold is the same as all."""

    def __init__(self) -> None:
        super().__init__(min=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or a usage error that names the range."""
        return min(super().convert(value, param, ctx), _MOST_ROWS)


LAYER = LayerType()
DURATION = DurationType()
COUNT = CountType()


def words_of(kind: type[E]) -> click.Choice[str]:
    """A choice among the values of an enumeration, in any case."""
    return click.Choice([one.value for one in kind], case_sensitive=False)
