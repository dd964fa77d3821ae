"""What the gateway counts of itself, in the Prometheus text format."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping

_BOUNDS_MS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 1000.0)


class Histogram:
    """Counts of values in milliseconds by upper bound."""

    def __init__(self, bounds: tuple[float, ...] = _BOUNDS_MS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._sum += value
        self._counts[bisect_left(self._bounds, value)] += 1

    def lines(self, name: str) -> Iterable[str]:
        """In seconds, as Prometheus wants durations."""
        total = 0
        for bound, count in zip((*self._bounds, None), self._counts, strict=True):
            total += count
            edge = "+Inf" if bound is None else f"{bound / 1000:g}"
            yield f'{name}_bucket{{le="{edge}"}} {total}'
        yield f"{name}_sum {self._sum / 1000:.9g}"
        yield f"{name}_count {total}"


class Metrics:
    """Requests by their end, and our own share of their time."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self.overhead = Histogram()
        self.first_byte = Histogram()
        self.prompts: Counter[str] = Counter()
        self.traces: Counter[str] = Counter()
        self._lag = 0.0

    def lagged(self, seconds: float) -> None:
        """Note how late the event loop came back to a task that slept: requests waited as long."""
        self._lag = max(self._lag, seconds)

    def take_lag(self) -> float:
        """The longest lag since the last call."""
        lag, self._lag = self._lag, 0.0
        return lag

    def text(
        self, ended: Mapping[str, int], gauges: Mapping[str, float], counters: Mapping[str, float]
    ) -> str:
        """Everything, with the numbers of the other parts; `ended`: terminal records by how they ended."""
        lines = ["# HELP prx_gateway_requests_total Requests by how they ended."]
        lines.append("# TYPE prx_gateway_requests_total counter")
        lines += [f'prx_gateway_requests_total{{terminal="{t}"}} {n}' for t, n in sorted(ended.items())]
        lines.append("# TYPE prx_gateway_refused_total counter")
        lines += [f'prx_gateway_refused_total{{why="{why}"}} {n}' for why, n in sorted(self.refused.items())]
        lines.append("# TYPE prx_gateway_prompts_total counter")
        lines += [f'prx_gateway_prompts_total{{match="{m}"}} {n}' for m, n in sorted(self.prompts.items())]
        lines.append("# HELP prx_otlp_spans_total Spans that came over /v1/traces.")
        lines.append("# TYPE prx_otlp_spans_total counter")
        lines += [f'prx_otlp_spans_total{{as="{kind}"}} {n}' for kind, n in sorted(self.traces.items())]
        lines.append("# HELP prx_gateway_overhead_seconds Time in the gateway, without waiting for others.")
        lines.append("# TYPE prx_gateway_overhead_seconds histogram")
        lines += self.overhead.lines("prx_gateway_overhead_seconds")
        lines.append("# HELP prx_gateway_upstream_first_byte_seconds Wait for the provider's headers.")
        lines.append("# TYPE prx_gateway_upstream_first_byte_seconds histogram")
        lines += self.first_byte.lines("prx_gateway_upstream_first_byte_seconds")
        for kind, values in (("gauge", gauges), ("counter", counters)):
            for name, value in sorted(values.items()):
                lines += [f"# TYPE {name} {kind}", f"{name} {value:g}"]
        return "\n".join(lines) + "\n"
