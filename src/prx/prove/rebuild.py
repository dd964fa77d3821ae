"""A recorded request with another text of one prompt in it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from prx.domain.codec import content_hash
from prx.domain.records import Interaction, Message
from prx.live.prompts import render

Render = Callable[[str, Mapping[str, str]], str]


@dataclass(frozen=True, slots=True)
class PromptSwap:
    """The prompt under test: its stable and its candidate template.

    `earlier`: templates by content hash that recorded calls may still have been served with. `render`:
    what production renders with.
    """

    name: str
    stable: str
    candidate: str
    earlier: Mapping[str, str] = field(default_factory=dict)
    render: Render = render


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The same request twice: with the stable and with the candidate prompt."""

    stable: tuple[Message, ...]
    candidate: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class NotReplayable:
    """The recorded request cannot be rebuilt; counted, never guessed."""

    why: str


def rebuild(interaction: Interaction, swap: PromptSwap) -> Rebuilt | NotReplayable:
    """The recorded messages with the prompt's text replaced.

    The served template and its values are recorded; what they render to must stand exactly once in the
    messages.
    """
    served = interaction.prompts.get(swap.name)
    if served is None:
        return NotReplayable("the call did not use this prompt")
    known = {
        **swap.earlier,
        content_hash(swap.stable): swap.stable,
        content_hash(swap.candidate): swap.candidate,
    }
    if served not in known:
        return NotReplayable("the template that was served is not known")
    values = interaction.prompt_values.get(swap.name, {})
    old = swap.render(known[served], values).strip()
    stable, candidate = (swap.render(text, values).strip() for text in (swap.stable, swap.candidate))
    places = [index for index, message in enumerate(interaction.messages) if old and old in message.content]
    if len(places) != 1 or interaction.messages[places[0]].content.count(old) != 1:
        return NotReplayable("the prompt's text does not stand exactly once in the recorded request")
    index = places[0]

    def with_text(text: str) -> tuple[Message, ...]:
        message = interaction.messages[index]
        new = msgspec.structs.replace(message, content=message.content.replace(old, text))
        return (*interaction.messages[:index], new, *interaction.messages[index + 1 :])

    return Rebuilt(with_text(stable), with_text(candidate))
