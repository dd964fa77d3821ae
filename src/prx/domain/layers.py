"""The three layers that may evolve, and every spelling by which people call them."""

from enum import StrEnum

from prx.domain.errors import InvalidInput


class Layer(StrEnum):
    """One evolvable layer of an agent."""

    MEMORY = "memory"
    PROMPT = "prompt"
    STRATEGY = "strategy"

    @property
    def level(self) -> str:
        """Short name: L1, L2 or L3."""
        return _LEVELS[self]

    @property
    def label(self) -> str:
        """Printed form, such as `prompt (L2)`."""
        return f"{self.value} ({self.level})"


_LEVELS = {Layer.MEMORY: "L1", Layer.PROMPT: "L2", Layer.STRATEGY: "L3"}
_SPELLINGS = {
    **{layer.value: layer for layer in Layer},
    **{level.lower(): layer for layer, level in _LEVELS.items()},
    **{level[1]: layer for layer, level in _LEVELS.items()},
    "memories": Layer.MEMORY,
    "prompts": Layer.PROMPT,
    "policy": Layer.STRATEGY,
    "strategies": Layer.STRATEGY,
}


def parse_layer(text: str) -> Layer:
    """Layer named by `text` in any spelling (`L2`, `prompt`, `Prompt (L2)`, `policy`).

    Raises: InvalidInput when no layer is called so.
    """
    word = text.strip().casefold()
    head = word.split("(", 1)[0].strip()
    layer = _SPELLINGS.get(word) or _SPELLINGS.get(head)
    if layer is None:
        raise InvalidInput(f"no layer is called {text!r}; use memory (L1), prompt (L2) or strategy (L3)")
    return layer
