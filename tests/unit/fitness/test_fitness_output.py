import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from prx.domain.answers import NotEnoughData
from prx.fitness.deployment import (
    DeploymentFitness,
    DimensionFitness,
    HistoryPoint,
    LatencyPercentiles,
    MissingDimension,
    Trend,
)
from prx.fitness.show import fitness_json, fitness_text, history_json, history_text

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
SAMPLE = """\
Current Fitness Score: 0.74

Dimension            Score   Weight  Contribution
response_relevance   0.82    0.30    0.246
task_completion      0.78    0.25    0.195
response_latency     0.69    0.15    0.104
token_efficiency     0.65    0.10    0.065
memory_precision     0.71    0.10    0.071
user_satisfaction    0.60    0.10    0.060

Trend (last 7 days): +0.03 (improving)
"""
SAMPLE_ES = """\
Puntuacion de aptitud actual: 0.74

Dimension            Puntuacion  Peso    Contribucion
response_relevance   0.82        0.30    0.246
task_completion      0.78        0.25    0.195
response_latency     0.69        0.15    0.104
token_efficiency     0.65        0.10    0.065
memory_precision     0.71        0.10    0.071
user_satisfaction    0.60        0.10    0.060

Tendencia (ultimos 7 dias): +0.03 (mejorando)
"""
_ROWS = (
    ("response_relevance", 0.82, 0.30),
    ("task_completion", 0.78, 0.25),
    ("response_latency", 0.69, 0.15),
    ("token_efficiency", 0.65, 0.10),
    ("memory_precision", 0.71, 0.10),
    ("user_satisfaction", 0.60, 0.10),
)
FULL = DeploymentFitness(
    score=sum(score * weight for _, score, weight in _ROWS),
    start=NOW - timedelta(hours=24),
    end=NOW,
    sessions=40,
    coverage=1.0,
    dimensions=tuple(DimensionFitness(n, s, w, 30, 0.75, w) for n, s, w in _ROWS),
    latency=LatencyPercentiles(812.4, 2949.5, 321, False),
)
PART = replace(
    FULL,
    score=0.8,
    coverage=0.55,
    dimensions=(
        DimensionFitness("response_relevance", 0.8, 0.30 / 0.55, 30, 0.75, 0.30),
        DimensionFitness("task_completion", 0.8, 0.25 / 0.55, 40, 1.0, 0.25),
    ),
    missing=(
        MissingDimension("response_latency", 0.15, "no call carries a latency"),
        MissingDimension("token_efficiency", 0.10, "no token counts"),
        MissingDimension("memory_precision", 0.10, "no recalled memory was judged"),
        MissingDimension("user_satisfaction", 0.10, "no thumb"),
    ),
    latency=None,
)
UP = Trend(0.03, "improving", True)


def test_the_sample_of_the_source_documents_is_printed_byte_for_byte() -> None:
    assert fitness_text(FULL, UP).startswith(SAMPLE)


def test_the_spanish_sample_is_printed_byte_for_byte() -> None:
    assert fitness_text(FULL, UP, lang="es").startswith(SAMPLE_ES)


def test_other_languages_print_the_english_table_as_the_source_documents_do() -> None:
    assert {fitness_text(FULL, UP, lang=lang) for lang in ("ja", "ko", "ru", "zh")} == {
        fitness_text(FULL, UP)
    }


def test_the_output_says_that_scores_compare_only_within_one_deployment() -> None:
    assert "only within this deployment" in fitness_text(FULL, UP)
    assert "dentro de este despliegue" in fitness_text(FULL, UP, lang="es")
    assert fitness_json(FULL, UP)["comparable"] == "only within this deployment"


def test_a_missing_dimension_shows_a_dash_and_is_named_below_the_table() -> None:
    lines = fitness_text(PART, UP).splitlines()
    assert lines[3] == "response_relevance   0.80    0.55    0.436"
    assert lines[5] == "response_latency     -       -       -"
    assert lines[10] == (
        "Coverage: 55%; no data for response_latency, token_efficiency, memory_precision, "
        "user_satisfaction; weights renormalised over the rest"
    )


def test_falling_stable_and_unknown_trends_have_their_words() -> None:
    def last(trend: Trend | NotEnoughData, lang: str = "en") -> str:
        return next(
            x
            for x in fitness_text(FULL, trend, lang=lang).splitlines()
            if x.startswith(("Trend", "Tendencia"))
        )

    assert last(Trend(-0.045, "declining", True)) == "Trend (last 7 days): -0.05 (declining)"
    assert last(Trend(-0.004, "stable", True)) == "Trend (last 7 days): +0.00 (stable)"
    assert last(Trend(-0.045, "declining", True), "es") == "Tendencia (ultimos 7 dias): -0.05 (empeorando)"
    assert last(NotEnoughData("7 days ago: 0 sessions")) == (
        "Trend (last 7 days): not enough data (7 days ago: 0 sessions)"
    )
    assert last(Trend(0.03, "improving", False)).endswith(
        "(improving); the two windows do not have the same dimensions"
    )


def test_too_few_sessions_print_no_number() -> None:
    text = fitness_text(NotEnoughData("3 sessions in the window, 10 needed"), NotEnoughData("no score now"))
    assert text.startswith("Current Fitness Score: not enough data (3 sessions in the window, 10 needed)")
    assert "0.0" not in text


def test_the_breakdown_gives_counts_coverage_percentiles_and_why_a_dimension_is_missing() -> None:
    full = fitness_text(FULL, UP, breakdown=True)
    assert "Window: 2026-11-30 12:00 to 2026-12-01 12:00 UTC, 40 sessions" in full
    assert "response_latency     30      75%       p50 812 ms, p95 2950 ms over 321 calls" in full
    part = fitness_text(PART, UP, breakdown=True)
    assert "task_completion      40      100%\n" in part
    assert "memory_precision     0       0%        missing: no recalled memory was judged" in part


def test_json_is_unrounded_and_names_what_is_missing() -> None:
    answer = json.loads(json.dumps(fitness_json(PART, UP)))
    assert answer["status"] == "scored"
    assert answer["dimensions"]["task_completion"] == {
        "score": 0.8,
        "weight": 0.25 / 0.55,
        "contribution": 0.8 * 0.25 / 0.55,
        "configured_weight": 0.25,
        "sessions": 40,
        "coverage": 1.0,
    }
    assert "response_latency" not in answer["dimensions"]
    assert next(m["dimension"] for m in answer["missing"]) == "response_latency"
    assert answer["trend"]["word"] == "improving"
    assert fitness_json(FULL, UP)["latency"]["p95_ms"] == 2949.5


def test_json_without_data_says_so_instead_of_a_number() -> None:
    answer = fitness_json(NotEnoughData("3 sessions"), NotEnoughData("no score now"))
    assert (answer["status"], answer["fitness"], answer["why"]) == ("not_enough_data", None, "3 sessions")


def test_the_history_is_a_table_and_its_json_has_a_row_per_window() -> None:
    points = [
        HistoryPoint(
            NOW - timedelta(days=1), NOW, 2, NotEnoughData("2 sessions in the window, 10 needed"), False
        ),
        HistoryPoint(NOW, NOW + timedelta(days=1), 40, FULL, True),
    ]
    lines = history_text(points).splitlines()
    assert lines[0] == "Window (UTC)          Fitness  Sessions  Coverage"
    assert lines[1] == (
        "2026-11-30 12:00      -        2         not enough data (2 sessions in the window, 10 needed)"
    )
    assert lines[2] == "2026-12-01 12:00      0.74     40        100% (running)"
    rows = history_json(points)
    assert [row["fitness"] for row in rows] == [None, FULL.score]
    assert rows[1]["dimensions"]["task_completion"] == 0.78
