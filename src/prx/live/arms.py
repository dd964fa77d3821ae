"""The arms of one session: decided once, written before any outcome, and what was really served."""

from collections.abc import Callable
from dataclasses import dataclass, field

from prx.domain.experiments import CONTROL, TREATMENT
from prx.domain.layers import Layer
from prx.domain.records import PRODUCTION, Assignment, Exposure
from prx.domain.serving import ServedExperiment, Serving
from prx.live.assign import assign, unit_of
from prx.live.runtime import Runtime


@dataclass(slots=True)
class Arms:
    """`named` is the session id when the app opened the session itself, else None: not a unit then."""

    runtime: Runtime
    session_id: str
    named: str | None
    user: str | None
    env: str
    begun: bool = False
    variants: dict[str, str | None] = field(default_factory=dict)
    exposed: set[tuple[str, str]] = field(default_factory=set)

    def running(
        self, serving: Serving, layer: Layer, touches: Callable[[ServedExperiment], bool], *, may_enter: bool
    ) -> list[tuple[ServedExperiment, str]]:
        """Experiments on `layer` that this session is in, each with its arm.

        A session enters an experiment at the first request that it touches, before its first model call
        and while `may_enter`; a session that is under way when an experiment starts stays out.
        """
        found = []
        for experiment in serving.experiments:
            if experiment.layer is layer and touches(experiment):
                variant = self._variant(experiment, may_enter=may_enter and not serving.killed)
                if variant is not None:
                    found.append((experiment, variant))
        return found

    def expose(self, experiment: ServedExperiment, assigned: str, served: str) -> None:
        """Record once per session what was served to it under this experiment."""
        key = (experiment.experiment_id, served)
        if key in self.exposed:
            return
        self.exposed.add(key)
        self.runtime.emit(
            Exposure(
                record_id=f"exposure/{experiment.experiment_id}/{self.session_id}/{served}",
                at=self.runtime.now(),
                experiment_id=experiment.experiment_id,
                session_id=self.session_id,
                assigned=assigned,
                served=served,
            )
        )

    def _variant(self, experiment: ServedExperiment, *, may_enter: bool) -> str | None:
        if experiment.experiment_id in self.variants:
            return self.variants[experiment.experiment_id]
        if not may_enter:
            return None
        unit, _ = unit_of(experiment.randomization_unit, session_id=self.named, user=self.user)
        eligible = unit is not None and self.env == PRODUCTION and not self.begun
        variant = assign(unit, experiment) if eligible and unit is not None else None
        self.variants[experiment.experiment_id] = variant
        if variant is not None and unit is not None:
            self.runtime.emit(
                Assignment(
                    record_id=f"assignment/{experiment.experiment_id}/{self.session_id}",
                    at=self.runtime.now(),
                    experiment_id=experiment.experiment_id,
                    unit=unit,
                    session_id=self.session_id,
                    variant=variant,
                )
            )
        return variant


def served_arm(assigned: str, *, killed: bool) -> str:
    """The arm whose state is served: the assigned one, or the champion once the kill switch is on."""
    return TREATMENT if assigned == TREATMENT and not killed else CONTROL
