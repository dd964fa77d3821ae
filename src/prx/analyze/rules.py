"""What the analysis counts as enough, as much, and as often."""

from dataclasses import dataclass

from prx.domain.told import ANSWER_NAMES

DETECTORS = ("repeated_failure", "prompt_weakness", "latency_outlier", "cost_inefficiency", "memory_gap")


@dataclass(frozen=True, slots=True)
class AnalyzeRules:
    """Floors, error rate and caps of one analysis run.

    alpha: chance of any false finding in a run without any pattern; shared evenly by the detectors.
    min_units, min_failures: least distinct units and failing units in a cell. min_excess: a rate must lie
    this far above the rest's, 0..1. min_users: named users behind anything derived from texts;
    anonymous_support: sessions without a user count as one each (off: an attacker makes them for free).
    max_units, sessions_per_unit: size of the keyed sample that is kept in memory. sample_key: secret of
    the installation, so that nobody can choose to be sampled. latency_ratio: medians this far apart.
    cost_ratio: the cheaper model costs at most this share. margin: non-inferiority in success rate.
    recall_floor: a recall below this score found nothing. answer_names: feedback whose text is the right
    answer.
    """

    alpha: float = 0.05
    min_units: int = 10
    min_failures: int = 5
    min_excess: float = 0.05
    min_users: int = 3
    anonymous_support: bool = False
    evidence_per_user: int = 2
    max_units: int = 5000
    sessions_per_unit: int = 8
    sample_key: str = "prx.analyze"
    env: str | None = "production"
    latency_ratio: float = 1.5
    latency_units: int = 20
    cost_ratio: float = 0.8
    cost_units: int = 30
    margin: float = 0.05
    recall_floor: float = 0.35
    max_terms: int = 8
    answer_names: tuple[str, ...] = ANSWER_NAMES

    @property
    def detector_alpha(self) -> float:
        """Share of `alpha` that each detector may spend in one run (Bonferroni over detectors)."""
        return self.alpha / len(DETECTORS)
