"""What a caller asked for under an id of its own, so that asking again does nothing again."""

from datetime import datetime

import msgspec

from prx.domain.layers import Layer


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rollback that was carried out, with its answer. `asked` is what was asked for, in plain form."""

    operation_id: str
    agent: str
    asked: dict[str, str | None]
    at: datetime
    restored: str
    left: str
    layers: tuple[Layer, ...] = ()
    cancelled_experiments: tuple[str, ...] = ()
