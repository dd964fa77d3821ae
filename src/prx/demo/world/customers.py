"""Who writes to the desk: users by Zipf's law with habits of their own, and those who mean harm."""

import random
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate

from prx.demo.world.bank import FOLLOW_UPS, LABELS, messages
from prx.demo.world.flavours import CHANNELS, World

_DAY_SHAPE = (1, 1, 1, 1, 1, 1, 2, 4, 7, 9, 9, 8, 7, 8, 8, 8, 7, 6, 5, 5, 4, 3, 2, 1)
_HABIT = 3.0


@dataclass(frozen=True, slots=True)
class Visit:
    """One message of one customer.

    `label` is the truth, which only the desk's clerks and the report know; `told` what this customer will
    claim it is. `hostile`: an attacker's, who always complains. `follow_up`: only asks how the last case
    goes, so the label is that of the last case, or of the desk where it is by now.
    """

    user: str
    channel: str
    text: str
    label: str
    told: str
    hostile: bool = False
    follow_up: bool = False


@dataclass(frozen=True, slots=True)
class Customer:
    """A user: share of all visits, the channel used, and labels asked about three times as often."""

    name: str
    weight: float
    channel: str
    habits: frozenset[str]


class Customers:
    """A seeded stream of visits; `users` and the share of every message are known to the report."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        made = random.Random(f"customers/{seed}")
        labels = sorted({label for _, label in messages()})
        self.users = tuple(
            Customer(
                f"customer-{k:04d}",
                1.0 / (k + 8),
                made.choices(list(CHANNELS), list(CHANNELS.values()))[0],
                frozenset(made.sample(labels, 2)),
            )
            for k in range(world.users)
        )
        self._of_users = list(accumulate(user.weight for user in self.users))
        self._of_messages: dict[tuple[str, bool], list[float]] = {}
        self._rng = random.Random(f"visits/{seed}")
        self._cases: dict[str, str] = {}

    def hour(self, day: float) -> list[tuple[timedelta, Visit]]:
        """Visits in the hour that begins at `day`, by time within it."""
        hour = int(day * 24 + 1e-6) % 24
        mean = self._world.visits * _DAY_SHAPE[hour] / sum(_DAY_SHAPE)
        times = sorted(self._rng.random() for _ in range(_poisson(self._rng, mean)))
        visits = [(timedelta(hours=at), self._visit(day)) for at in times]
        attack = self._world.attack
        if attack and day >= attack.day:
            flood = _poisson(self._rng, mean * attack.share / (1 - attack.share))
            visits += [(timedelta(hours=self._rng.random()), self._lie()) for _ in range(flood)]
            visits.sort(key=lambda visit: visit[0])
        return visits

    def share_of(self, user: Customer, *, drifted: bool) -> list[float]:
        """Weight of each of `messages()` for this user, not normalised."""
        popular = self._popular(drifted=drifted)
        return [
            popular.get(label, 1.0) * (_HABIT if label in user.habits else 1.0) for _, label in messages()
        ]

    def drifted(self, day: float) -> bool:
        """Whether customers ask for other things by now."""
        return self._world.drifted is not None and day >= self._world.drift_day

    def _popular(self, *, drifted: bool) -> dict[str, float]:
        later = self._world.drifted
        return later if drifted and later is not None else self._world.popular

    def _visit(self, day: float) -> Visit:
        user = self._rng.choices(self.users, cum_weights=self._of_users)[0]
        remembers, case = self._world.remembers, self._cases.get(user.name)
        if remembers and case and self._rng.random() < remembers.follow_ups:
            asked = self._rng.choice(FOLLOW_UPS)
            now_at = self._rng.choice(LABELS) if self._rng.random() < remembers.stale else case
            return Visit(user.name, user.channel, asked, now_at, told=now_at, follow_up=True)
        key = (user.name, self.drifted(day))
        if key not in self._of_messages:
            self._of_messages[key] = list(accumulate(self.share_of(user, drifted=key[1])))
        text, label = self._rng.choices(messages(), cum_weights=self._of_messages[key])[0]
        self._cases[user.name] = label
        return Visit(user.name, user.channel, text, label, told=label)

    def _lie(self) -> Visit:
        attack = self._world.attack
        assert attack is not None
        chosen = [text for text, label in messages() if label == attack.label]
        name = f"account-{self._rng.randrange(attack.accounts)}"
        return Visit(name, "chat", self._rng.choice(chosen), attack.label, told=attack.told, hostile=True)


def _poisson(rng: random.Random, mean: float) -> int:
    """A Poisson count by the sum of exponential waits."""
    total, count = rng.expovariate(mean), 0
    while total < 1.0:
        total += rng.expovariate(mean)
        count += 1
    return count
