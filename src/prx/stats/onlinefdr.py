"""How much evidence an unattended promotion needs when many experiments run one after the other."""

from collections.abc import Sequence
from dataclasses import dataclass

from prx.domain.errors import BadStatistics


@dataclass(frozen=True, slots=True)
class AutomaticExperiment:
    """An experiment that started earlier at promotion level `level`.

    `p_upper` is its one-sided sequential p-value once it has finished, else None.
    """

    level: float
    p_upper: float | None = None

    @property
    def won(self) -> bool:
        return self.p_upper is not None and self.p_upper <= self.level


def promotion_level(started: Sequence[AutomaticExperiment], *, alpha: float = 0.05, q: float = 0.10) -> float:
    """Return a_i: the one-sided sequential p at or below which the next experiment may promote unattended.

    a_i = min(alpha / 2, B / 4) with the budget B = q max(1, R) - sum of the levels of all `started`, R
    those of them that finished and won. Controls the marginal false discovery rate at `q` for asynchronous
    experiments: a LORD rule of Zrnic, Ramdas and Jordan (2021, JMLR 22(33)). 0 when the budget is used up.
    A win above a_i waits for a person (reason `fdr_budget`).

    Raises: BadStatistics for rates outside (0, 1) or p-values and levels outside [0, 1].
    """
    if not (0.0 < alpha < 1.0 and 0.0 < q < 1.0):
        raise BadStatistics(f"alpha and q must lie in (0, 1), got {alpha!r} and {q!r}")
    for past in started:
        if not 0.0 <= past.level <= 1.0 or not (past.p_upper is None or 0.0 <= past.p_upper <= 1.0):
            raise BadStatistics(f"levels and p-values must lie in [0, 1], got {past}")
    wins = sum(past.won for past in started)
    budget = q * max(1, wins) - sum(past.level for past in started)
    return max(0.0, min(alpha / 2.0, budget / 4.0))
