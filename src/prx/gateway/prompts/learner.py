"""Learns the templates of an agent's system prompts from what its sessions send.

A template is shown to anyone only once `units` different users or sessions have filled it: what all of
them sent alike is the prompt's own text, what differs is a slot. What one session alone sent is never part
of a template that is given out.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from prx.gateway.prompts.alignment import first_constants, merged, size, words_of
from prx.gateway.prompts.template import Template, template_of

_KINDS = 32
_TRIED = 3
_LONGEST = 100_000


@dataclass(frozen=True, slots=True)
class LearnRules:
    """`units`: users or sessions that must have sent a prompt before its template is shown. `alike`: share
    of a prompt's own letters that another must have in common with it to be of the same kind. `least`:
    letters and digits of its own below which a prompt is not learned."""

    units: int = 20
    alike: float = 0.6
    least: int = 16


@dataclass(slots=True)
class Kind:
    """Prompts of one kind: what they have in common so far. `settled`: shown, so no longer generalised."""

    number: int
    constants: tuple[str, ...]
    words: frozenset[str]
    units: set[str] = field(default_factory=set)
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    settled: bool = False
    sent: int = 0

    @property
    def template(self) -> Template:
        """The template as it is known now."""
        return template_of(self.constants)


class Learner:
    """Kinds of prompts of one agent."""

    def __init__(self, rules: LearnRules | None = None) -> None:
        self._rules = rules or LearnRules()
        self._kinds: OrderedDict[int, Kind] = OrderedDict()
        self._numbers = 0

    def observe(self, text: str, unit: str, now: datetime, known: Iterable[str] = ()) -> Kind | None:
        """Take the first system prompt of a session; the kind that just settled by it, if one did.

        `known`: values that belong to this session, such as the user's id: they are slots at once.
        """
        if len(text) > _LONGEST:
            return None
        kind = self._fitting(text) or self._alike(text) or self._new(text, known)
        if not kind.settled and len(kind.units) < self._rules.units:
            kind.units.add(unit)
        kind.sent += 1
        kind.first_seen = kind.first_seen or now
        kind.last_seen = now
        self._kinds.move_to_end(kind.number)
        if kind.settled or len(kind.units) < self._rules.units:
            return None
        if size(kind.constants) < self._rules.least:
            return None
        kind.settled = True
        # Who they were is of no more use, and should not be kept.
        kind.units.clear()
        return kind

    def adopt(self, template: Template) -> None:
        """Take in a template that was shown before, so that it is not learned again."""
        kind = self._new("", ())
        kind.constants, kind.words, kind.settled = template.constants, words_of(template.text), True

    def kinds(self) -> list[Kind]:
        """All kinds that are known now."""
        return list(self._kinds.values())

    def settled(self) -> list[Kind]:
        """Kinds whose template may be shown, oldest first."""
        return sorted((k for k in self._kinds.values() if k.settled), key=lambda k: k.number)

    def like(self, kind: Kind, template: Template) -> bool:
        """Whether a kind is alike to a template, as a changed text is to the one before it."""
        common = size(merged(kind.constants, template.text))
        return common >= self._rules.alike * max(1, min(size(kind.constants), size(template.constants)))

    def _fitting(self, text: str) -> Kind | None:
        fitting = [k for k in self._kinds.values() if k.template.match(text) is not None]
        return max(fitting, key=lambda k: size(k.constants), default=None)

    def _alike(self, text: str) -> Kind | None:
        words = words_of(text)
        open_kinds = [k for k in self._kinds.values() if not k.settled]
        nearest = sorted(open_kinds, key=lambda k: -len(k.words & words))[:_TRIED]
        for kind in nearest:
            constants = merged(kind.constants, text)
            enough = max(self._rules.least, self._rules.alike * size(kind.constants))
            if size(constants) >= enough and template_of(constants).match(text) is not None:
                kind.constants = constants
                kind.words = words_of("\n".join(constants))
                return kind
        return None

    def _new(self, text: str, known: Iterable[str]) -> Kind:
        self._numbers += 1
        constants = first_constants(text, known)
        kind = Kind(self._numbers, constants, words_of("\n".join(constants)))
        self._kinds[kind.number] = kind
        if len(self._kinds) > _KINDS:
            oldest = next((n for n, k in self._kinds.items() if not k.settled), None)
            self._kinds.pop(next(iter(self._kinds)) if oldest is None else oldest)
        return kind
