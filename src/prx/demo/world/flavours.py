"""The worlds that a run can take place in: what is true there, and what can go wrong."""

from dataclasses import dataclass, field

from prx.domain.errors import InvalidInput

CHAT, EMAIL, PHONE = "chat", "email", "phone"
CHANNELS = {CHAT: 0.6, EMAIL: 0.3, PHONE: 0.1}


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """One simulated model. `blind`: word stems that it does not understand, wherever they stand, which is
    what makes its skill differ by intent. Times in ms of an empty and per prompt word; prices in US dollars
    per token."""

    name: str
    blind: frozenset[str] = frozenset()
    first_ms: float = 420.0
    word_ms: float = 2.0
    price_in: float = 0.6e-6
    price_out: float = 2.4e-6


QUICK = ModelTraits("sim-quick", blind=frozenset({"transfer", "recipient", "friend", "transaction", "top"}))
STEADY = ModelTraits(
    "sim-steady", blind=frozenset({"exchange", "rate"}), first_ms=520.0, price_in=0.5e-6, price_out=2.0e-6
)
OLD = ModelTraits("sim-old", first_ms=900.0, word_ms=3.0, price_in=0.66e-6, price_out=2.64e-6)
MODELS = (QUICK, STEADY, OLD)


@dataclass(frozen=True, slots=True)
class People:
    """How customers and clerks react, all shares 0..1 of visits.

    outcome: the desk closes the ticket and says whether it was right, and if not which desk it was; a label
    that is no desk always lands with a clerk. thumb: of those, customers who leave a thumb; happy: share of
    thumbs that point up after a right and a wrong answer; tool_outage: tickets that could not be opened for
    a reason outside of the agent.
    """

    outcome: float = 0.75
    thumb: float = 0.2
    happy: tuple[float, float] = (0.9, 0.15)
    tool_outage: float = 0.01


@dataclass(frozen=True, slots=True)
class Attack:
    """A few accounts flood the desk from `day` on and tell a wrong label for one kind of message.

    share: of all visits.
    """

    day: float
    share: float = 0.3
    accounts: int = 6
    label: str = "card_arrival"
    told: str = "exchange_rate"


@dataclass(frozen=True, slots=True)
class Outage:
    """The provider of the models fails `share` of the calls for `hours`."""

    days: tuple[float, ...]
    hours: float = 12.0
    share: float = 0.6


@dataclass(frozen=True, slots=True)
class Remembering:
    """What the desk remembers.

    follow_ups: share of visits by customers who only ask how their last case goes; stale: share of these
    whose case went to another desk meanwhile, so that the memory is wrong; notes: shared notes that clerks
    write in a day, most of which say again what is known; judged: share of follow-ups for which is told
    whether the memory was of use.
    """

    follow_ups: float = 0.08
    stale: float = 0.1
    notes: float = 5.0
    judged: float = 0.8


@dataclass(frozen=True, slots=True)
class World:
    """One world. Nothing of it reaches the product.

    visits: per day. popular: weight of messages with a label, 1 where it is not named; drifted: from
    `drift_day` on. reads_prompt: False where models answer from what they know and no edit can help.
    loves: phrase that bribes the judge. proposer: who writes prompt edits; empty: the engine's own rules.
    remembers: None for an app without memory.
    """

    name: str
    says: str
    visits: float = 200.0
    users: int = 600
    popular: dict[str, float] = field(default_factory=lambda: {"request_refund": 3.0, "pin_blocked": 2.0})
    drifted: dict[str, float] | None = None
    drift_day: float = 20.0
    reads_prompt: bool = True
    models: tuple[ModelTraits, ...] = MODELS
    people: People = People()
    attack: Attack | None = None
    outage: Outage | None = None
    proposer: str = ""
    loves: str = ""
    remembers: Remembering | None = None


IMPROVABLE = World(
    "improvable",
    "the prompt is weak on two intents and one model is wrong for transfers",
    popular={"request_refund": 3.5, "pin_blocked": 2.0},
)
_ALIKE = tuple(ModelTraits(model.name) for model in MODELS)
WORLDS: dict[str, World] = {
    world.name: world
    for world in (
        IMPROVABLE,
        World(
            "null",
            "the models answer from what they know: no change can help",
            reads_prompt=False,
            models=_ALIKE,
        ),
        World("harmful", "three in four of the proposer's edits make things worse", proposer="harmful"),
        World(
            "hackable",
            "the judge loves a phrase, and the proposer found out",
            proposer="phrase",
            loves="Certainly",
        ),
        World(
            "drift",
            "from day 20 on customers ask for other things",
            popular={"card_arrival": 3.0, "exchange_rate": 3.0},
            drifted={"request_refund": 8.0, "pin_blocked": 4.0, "cancel_transfer": 3.0},
        ),
        World("poisoned", "from day 3 on six accounts flood the desk and lie", attack=Attack(day=3.0)),
        World("low-traffic", "a dozen customers a day", visits=12.0),
        World(
            "outage",
            "the models' provider fails for hours at a time",
            outage=Outage(days=(6.0, 13.0, 20.0, 27.0, 34.0)),
        ),
    )
}


def world_named(name: str) -> World:
    """The world called `name`. Raises: InvalidInput that lists the worlds."""
    if name not in WORLDS:
        raise InvalidInput(f"no world is called {name!r}; there are: {', '.join(WORLDS)}")
    return WORLDS[name]
