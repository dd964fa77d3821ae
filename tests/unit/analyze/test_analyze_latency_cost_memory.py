import random
from datetime import timedelta

import pytest
from analyze_traffic import NOW, Asked, fresh_ids, traffic

from prx.analyze.analyze import Analysis, examine
from prx.domain.findings import Finding, FindingKind
from prx.domain.layers import Layer
from prx.domain.records import ToolStatus


def examined(asked: list[Asked]) -> Analysis:
    traces, scores = traffic(asked)
    return examine(traces, scores, agent="default", now=NOW, ids=fresh_ids())


def of_kind(asked: list[Asked], kind: FindingKind) -> list[Finding]:
    return [finding for finding in examined(asked).findings if finding.kind is kind]


def waits(seed: int, factor: float) -> list[Asked]:
    rng = random.Random(seed)
    return [
        Asked(
            f"u{n}",
            model="slow" if n % 2 else "fast",
            latency=rng.lognormvariate(6, 0.4) * (factor if n % 2 else 1),
        )
        for n in range(160)
    ]


def test_a_model_three_times_slower_is_found_with_the_ratio() -> None:
    (finding,) = of_kind(waits(1, 3.0), FindingKind.LATENCY_OUTLIER)
    assert (finding.model, finding.tool, finding.layer) == ("slow", None, Layer.STRATEGY)
    assert finding.numbers["ratio"] == pytest.approx(3.0, rel=0.25)
    assert finding.numbers["units"] == 80


def test_a_slow_model_seen_by_few_units_is_an_open_question() -> None:
    analysis = examined(waits(1, 20.0)[:38])
    assert "latency_outlier" in {note.detector for note in analysis.undecided}
    assert not [f for f in analysis.findings if f.kind is FindingKind.LATENCY_OUTLIER]


def test_a_shift_of_a_tenth_is_no_outlier_however_certain() -> None:
    rng = random.Random(2)
    asked = [
        Asked(f"u{n}", model="ab"[n % 2], latency=(110 if n % 2 else 100) + rng.random()) for n in range(400)
    ]
    assert of_kind(asked, FindingKind.LATENCY_OUTLIER) == []


def test_one_user_with_many_slow_calls_makes_no_outlier() -> None:
    rng = random.Random(3)
    asked = [Asked(f"u{n}", model="ab"[n % 2], latency=rng.lognormvariate(6, 0.4)) for n in range(100)]
    asked += [Asked("mallory", model="a", latency=60_000.0) for _ in range(500)]
    assert of_kind(asked, FindingKind.LATENCY_OUTLIER) == []


def test_a_tool_that_got_slower_in_the_last_quarter_is_found_as_drift() -> None:
    rng = random.Random(4)
    asked = []
    for n in range(400):
        late = n >= 300
        wait = rng.lognormvariate(5, 0.3) * (4 if late else 1)
        asked.append(
            Asked(f"u{n}", tools=(("search", ToolStatus.OK, wait),), after=timedelta(minutes=20 * n))
        )
    (finding,) = of_kind(asked, FindingKind.LATENCY_OUTLIER)
    assert finding.tool == "search"
    assert "than it was before" in finding.summary
    assert finding.numbers["ratio"] == pytest.approx(4.0, rel=0.25)


def priced(seed: int, cheap_success: float, *, cheap_cost: float = 0.001, units: int = 800) -> list[Asked]:
    rng = random.Random(seed)
    asked = []
    for n in range(units):
        cheap = n % 2 == 0
        cost = cheap_cost if cheap else 0.01
        ok = rng.random() < (cheap_success if cheap else 0.9)
        asked.append(Asked(f"u{n}", "faq", "small" if cheap else "large", ok=ok, cost=cost))
    return asked


def test_a_cheaper_model_that_does_as_well_is_found_with_the_saving() -> None:
    (finding,) = of_kind(priced(5, 0.93), FindingKind.COST_INEFFICIENCY)
    assert (finding.intent, finding.model, finding.alternative) == ("faq", "large", "small")
    assert finding.numbers["saved_share"] == pytest.approx(0.9)
    assert finding.numbers["difference_low"] > -0.05


@pytest.mark.parametrize("seed", range(10))
def test_a_cheaper_model_that_does_worse_is_not_suggested(seed: int) -> None:
    assert of_kind(priced(seed, 0.80), FindingKind.COST_INEFFICIENCY) == []


def test_a_model_hardly_cheaper_is_not_suggested() -> None:
    assert of_kind(priced(6, 0.95, cheap_cost=0.009), FindingKind.COST_INEFFICIENCY) == []


def test_few_sessions_leave_the_question_of_cost_open() -> None:
    analysis = examined(priced(7, 1.0, units=40))
    assert "cost_inefficiency" in {note.detector for note in analysis.undecided}


def test_a_topic_without_recall_is_a_memory_gap() -> None:
    asked = [Asked(f"u{n}", "visa", recall=None if n % 10 else 0.9) for n in range(60)]
    asked += [Asked(f"v{n}", "card", recall=0.8 if n % 10 else 0.1) for n in range(120)]
    (finding,) = of_kind(asked, FindingKind.MEMORY_GAP)
    assert (finding.intent, finding.layer) == ("visa", Layer.MEMORY)
    rate = finding.rate
    assert rate is not None
    assert (rate.count, rate.total, rate.rest_count, rate.rest_total) == (54, 60, 12, 120)


def test_a_topic_of_which_two_in_five_recall_nothing_is_no_gap() -> None:
    asked = [Asked(f"u{n}", "visa", recall=None if n % 5 < 2 else 0.9) for n in range(100)]
    asked += [Asked(f"v{n}", "card", recall=0.8) for n in range(200)]
    assert of_kind(asked, FindingKind.MEMORY_GAP) == []


@pytest.mark.parametrize("word", ["passport", "паспорт", "pasaporte", "护照", "旅券", "여권"])
def test_a_gap_without_intents_is_named_by_its_word_in_each_language(word: str) -> None:
    rng = random.Random(8)
    others = ["alpha", "bravo", "delta", "kappa", "omega", "sigma", "theta", "lambda"]
    asked = [
        Asked(f"u{n}", None, request=f"{word}, {rng.choice(others)} {rng.choice(others)}") for n in range(60)
    ]
    asked += [Asked(f"v{n}", None, request=" ".join(rng.sample(others, 3)), recall=0.8) for n in range(180)]
    (finding,) = of_kind(asked, FindingKind.MEMORY_GAP)
    assert finding.intent == word


def test_words_that_come_together_make_one_gap() -> None:
    asked = [Asked(f"u{n}", None, request="passport visa embassy") for n in range(60)]
    asked += [Asked(f"v{n}", None, request=f"card number{n % 9}", recall=0.8) for n in range(180)]
    assert len(of_kind(asked, FindingKind.MEMORY_GAP)) == 1


def test_where_memory_is_not_used_the_gap_is_an_open_question() -> None:
    analysis = examined([Asked(f"u{n}", "ab"[n % 2]) for n in range(200)])
    assert "memory_gap" in {note.detector for note in analysis.undecided}
    assert not [f for f in analysis.findings if f.kind is FindingKind.MEMORY_GAP]


def test_requests_without_intent_in_a_script_not_supported_are_an_open_question() -> None:
    asked = [
        Asked(f"u{n}", None, request="การจัดส่งบัตรของฉัน", recall=0.9 if n % 2 else None) for n in range(200)
    ]
    analysis = examined(asked)
    (note,) = [n for n in analysis.undecided if n.detector == "memory_gap"]
    assert "script" in note.answer.why
