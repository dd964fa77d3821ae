"""PRX Evolution: improve a live LLM agent by evidence. Importing this loads no numeric library."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prx.live.evolution import Evolution

__all__ = ["agents_processor", "langchain_handler", "open", "turn", "wrap"]


def open(*args: Any, **options: Any) -> "Evolution":
    """An Evolution over the local state folder; see `prx.wiring.sdk.open_evolution`. Never raises."""
    from prx.wiring.sdk import open_evolution

    return open_evolution(*args, **options)


def wrap(client: Any, evolution: "Evolution | None" = None) -> Any:
    """An OpenAI client whose calls are recorded; it behaves as before in every other way."""
    from prx.live.wrap import wrap as wrap_client
    from prx.wiring.sdk import default_evolution

    return wrap_client(client, evolution if evolution is not None else default_evolution())


def turn(evolution: "Evolution | None" = None, **scope: Any) -> Any:
    """A decorator that makes a session of each call of a function; see `prx.live.turns.turn`."""
    from prx.live.turns import turn as make
    from prx.wiring.sdk import default_evolution

    return make(evolution if evolution is not None else default_evolution, **scope)


def langchain_handler(evolution: "Evolution | None" = None, **options: Any) -> Any:
    """A callback handler for LangChain and LangGraph (extra `langchain`); see `prx.live.hooks.langchain`."""
    from prx.live.hooks.langchain import RecordingHandler
    from prx.wiring.sdk import default_evolution

    return RecordingHandler(evolution if evolution is not None else default_evolution(), **options)


def agents_processor(evolution: "Evolution | None" = None, **options: Any) -> Any:
    """A tracing processor for OpenAI Agents (extra `agents`); see `prx.live.hooks.openai_agents`."""
    from prx.live.hooks.openai_agents import RecordingProcessor
    from prx.wiring.sdk import default_evolution

    return RecordingProcessor(evolution if evolution is not None else default_evolution(), **options)
