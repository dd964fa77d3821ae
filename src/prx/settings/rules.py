"""What several keys must satisfy together."""

import math
from collections.abc import Iterator

from prx.domain.scores import DIMENSIONS
from prx.settings.lines import Path
from prx.settings.schema import Models, Settings

_SUM_TOLERANCE = 1e-6


def conflicts(settings: Settings) -> Iterator[tuple[Path, str]]:
    """Key and complaint for every rule that the keys break together."""
    yield from _fitness(settings)
    yield from _experiments(settings)
    yield from _models(settings.models)
    yield from _lists(settings)
    if bool(settings.audit.head_file) != bool(settings.audit.head_key):
        missing = "head_key" if settings.audit.head_file else "head_file"
        yield ("audit",), f"audit.{missing} is missing; give head_file and head_key, or neither"
    if settings.judge.max_tasks < settings.judge.min_tasks:
        yield (
            ("judge", "max_tasks"),
            _order("judge.min_tasks", settings.judge.min_tasks, "judge.max_tasks", settings.judge.max_tasks),
        )


def _fitness(settings: Settings) -> Iterator[tuple[Path, str]]:
    fitness = settings.fitness
    total = math.fsum(fitness.weights.as_dict().values())
    if abs(total - 1) > _SUM_TOLERANCE:
        parts = ", ".join(f"{name} {value:g}" for name, value in fitness.weights.as_dict().items())
        yield (
            ("fitness", "weights"),
            f"the fitness weights sum to {total:.6g}, they must sum to 1 "
            f"({parts}; a weight that is not given keeps its default)",
        )
    if fitness.ceiling_ms <= fitness.target_ms:
        yield (
            ("fitness", "ceiling_ms"),
            _order("fitness.target_ms", fitness.target_ms, "fitness.ceiling_ms", fitness.ceiling_ms),
        )
    target, ceiling = fitness.target_tokens, fitness.ceiling_tokens
    if isinstance(target, str) != isinstance(ceiling, str):
        yield (
            ("fitness", "target_tokens"),
            'fitness.target_tokens and fitness.ceiling_tokens must both be numbers or both be "auto"',
        )
    elif not isinstance(target, str) and not isinstance(ceiling, str) and ceiling <= target:
        yield (
            ("fitness", "ceiling_tokens"),
            _order("fitness.target_tokens", target, "fitness.ceiling_tokens", ceiling),
        )


def _experiments(settings: Settings) -> Iterator[tuple[Path, str]]:
    plan, auto = settings.experiments, settings.experiments.auto_converge
    limit = ("experiments.auto_converge.max_duration_hours", auto.max_duration_hours)
    for name in ("min_duration_hours", "default_duration_hours"):
        if getattr(plan, name) > limit[1]:
            yield ("experiments", name), _order(f"experiments.{name}", getattr(plan, name), *limit)
    if auto.check_interval_hours > limit[1]:
        yield (
            ("experiments", "auto_converge", "check_interval_hours"),
            _order("experiments.auto_converge.check_interval_hours", auto.check_interval_hours, *limit),
        )


def _models(models: Models) -> Iterator[tuple[Path, str]]:
    for role in ("agent", "judge", "proposer", "embedder"):
        model = getattr(models, role)
        if bool(model.base_url) != bool(model.model):
            missing = "model" if model.base_url else "base_url"
            yield ("models", role), f"models.{role} has no {missing}; give base_url and model, or neither"
        if model.checker and (role != "judge" or model.base_url):
            yield (
                ("models", role, "checker"),
                f"models.{role}.checker: only the judge may be a checker, and then without base_url",
            )


def _lists(settings: Settings) -> Iterator[tuple[Path, str]]:
    seen: set[str] = set()
    for number, check in enumerate(settings.gate.checks):
        path: Path = ("gate", "checks", number)
        if not check.name.strip() or not check.command:
            yield path, "a gate check needs a name and a command"
        elif check.name in seen:
            yield path, f"two gate checks are called {check.name!r}; give each its own name"
        seen.add(check.name)
    taken = {*DIMENSIONS, "cost", "fitness"}
    for name in settings.metrics:
        if name in taken:
            yield ("metrics", name), f"{name} is measured already; give the metric another name"
    primaries = [name for name, metric in settings.metrics.items() if metric.role == "primary"]
    if len(primaries) > 1:
        yield ("metrics", primaries[1]), f"metrics {' and '.join(primaries)} are both primary; one may be"


def _order(low: str, low_value: float, high: str, high_value: float) -> str:
    return f"{high} is {high_value:g} and {low} is {low_value:g}; {high} must not be below {low}"
