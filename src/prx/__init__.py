"""PRX Evolution: improve a live LLM agent by evidence. Importing this loads no numeric library."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prx.live.evolution import Evolution

__all__ = ["open", "wrap"]


def open(*args: Any, **options: Any) -> "Evolution":
    """An Evolution over the local state folder; see `prx.wiring.sdk.open_evolution`. Never raises."""
    from prx.wiring.sdk import open_evolution

    return open_evolution(*args, **options)


def wrap(client: Any, evolution: "Evolution | None" = None) -> Any:
    """An OpenAI client whose calls are recorded; it behaves as before in every other way."""
    from prx.live.wrap import wrap as wrap_client
    from prx.wiring.sdk import default_evolution

    return wrap_client(client, evolution if evolution is not None else default_evolution())
