"""How often the analysis sees a pattern where there is none."""

import random
from datetime import timedelta

import pytest
from analyze_traffic import NOW, Asked, fresh_ids, traffic
from scipy.stats import binomtest

from prx.analyze.analyze import analyze
from prx.domain.records import ToolStatus

PROMPT = "Answer with the topic.\n- cards: on cards\n- loans: on loans\n- rates: on rates\n- other: else\n"
INTENTS = ("cards", "loans", "rates", "other")
VOCABULARY = [f"word{chr(97 + a)}{chr(97 + b)}" for a in range(10) for b in range(6)]


def null_world(seed: int, sessions: int = 180) -> list[Asked]:
    """Failure depends on the user only: intents, models, tools and words are alike; few users dominate."""
    rng = random.Random(seed)
    users = [(f"u{n}", rng.betavariate(1, 3), rng.choice(INTENTS)) for n in range(110)]
    zipf = [1 / (rank + 1) ** 0.7 for rank in range(len(users))]
    asked: list[Asked] = []
    for _ in range(sessions):
        user, propensity, favourite = rng.choices(users, zipf)[0]
        ok = rng.random() >= propensity
        intent = favourite if rng.random() < 0.5 else rng.choice(INTENTS)
        status = ToolStatus.OK if ok else ToolStatus.FAILED
        asked.append(
            Asked(
                user,
                intent,
                rng.choice(["alpha", "beta"]),
                ok=ok,
                request=" ".join(rng.choices(VOCABULARY, k=8)),
                response=intent if ok else "wrong",
                answer=None if ok or rng.random() < 0.5 else intent,
                prompt=PROMPT,
                cost=rng.lognormvariate(-6, 0.3),
                latency=rng.lognormvariate(6, 0.5),
                tools=((rng.choice(["search", "lookup"]), status, rng.lognormvariate(5, 0.5)),),
                recall=rng.random() if rng.random() < 0.7 else None,
                after=timedelta(days=rng.uniform(0, 6)),
            )
        )
    return asked


def worlds_with_findings(seeds: range) -> int:
    hits = 0
    for seed in seeds:
        traces, scores = traffic(null_world(seed))
        found = analyze(
            traces, scores, agent="default", now=NOW, ids=fresh_ids(seed), prompts={"main": PROMPT}
        )
        hits += bool(found)
    return hits


def test_in_200_worlds_without_a_pattern_findings_appear_in_at_most_five_percent() -> None:
    hits = worlds_with_findings(range(200))
    assert binomtest(hits, 200).proportion_ci(0.90, method="exact").high <= 0.05


@pytest.mark.slow
def test_in_2000_worlds_without_a_pattern_findings_appear_in_at_most_five_percent() -> None:
    hits = worlds_with_findings(range(1000, 3000))
    assert binomtest(hits, 2000).proportion_ci(0.90, method="exact").high <= 0.05
