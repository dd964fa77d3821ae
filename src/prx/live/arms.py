"""The arms of one session: decided once, written before any outcome, and what was really served."""

from collections.abc import Callable
from dataclasses import dataclass, field

from prx.domain.experiments import CONTROL, TREATMENT
from prx.domain.holdback import Holdback
from prx.domain.layers import Layer
from prx.domain.records import PRODUCTION, Assignment, Exposure
from prx.domain.serving import ServedExperiment, ServedHoldback, Serving
from prx.live.assign import assign, held_back, unit_of
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
        and while `may_enter`; a session that is under way when an experiment starts stays out. So does one
        whose unit is held back from an earlier change of the layer.
        """
        if self._held(serving, layer) is not None:
            return []
        found = []
        for experiment in serving.experiments:
            if experiment.layer is layer and touches(experiment):
                variant = self._variant(experiment, may_enter=may_enter and not serving.killed)
                if variant is not None:
                    found.append((experiment, variant))
        return found

    def previous(
        self, serving: Serving, layer: Layer, differs: Callable[[ServedHoldback], bool]
    ) -> ServedHoldback | None:
        """The previous part of `layer` that this session keeps; None when it is served what everyone is.

        Where the two parts differ for the session, its side of the holdback is recorded, once.
        """
        for holdback in serving.holdbacks:
            if holdback.plan.layer is layer and differs(holdback):
                variant = self._side(holdback.plan)
                if variant is None:
                    return None
                served = CONTROL if variant == CONTROL and not serving.killed else TREATMENT
                self._expose(holdback.plan.holdback_id, variant, served)
                return holdback if served == CONTROL else None
        return None

    def expose(self, experiment: ServedExperiment, assigned: str, served: str) -> None:
        """Record once per session what was served to it under this experiment."""
        self._expose(experiment.experiment_id, assigned, served)

    def _expose(self, experiment_id: str, assigned: str, served: str) -> None:
        key = (experiment_id, served)
        if key in self.exposed:
            return
        self.exposed.add(key)
        self.runtime.emit(
            Exposure(
                record_id=f"exposure/{experiment_id}/{self.session_id}/{served}",
                at=self.runtime.now(),
                experiment_id=experiment_id,
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
            self._assign(experiment.experiment_id, unit, variant)
        return variant

    def _held(self, serving: Serving, layer: Layer) -> Holdback | None:
        """The holdback that keeps this session's unit on the previous part of `layer`."""
        if serving.killed:
            return None
        plans = (one.plan for one in serving.holdbacks if one.plan.layer is layer)
        return next((plan for plan in plans if self._place(plan)[1] == CONTROL), None)

    def _side(self, plan: Holdback) -> str | None:
        """Control for a unit that is held back, treatment for the others, None without a unit; recorded."""
        known = plan.holdback_id in self.variants
        unit, variant = self._place(plan)
        if not known and variant is not None and unit is not None:
            self._assign(plan.holdback_id, unit, variant)
            self.variants[plan.holdback_id] = variant
        return variant

    def _place(self, plan: Holdback) -> tuple[str | None, str | None]:
        unit, _ = unit_of(plan.randomization_unit, session_id=self.named, user=self.user)
        if plan.holdback_id in self.variants:
            return unit, self.variants[plan.holdback_id]
        share = plan.share(self.runtime.now())
        if unit is None or share is None or self.env != PRODUCTION:
            return unit, None
        return unit, CONTROL if held_back(unit, plan.salt, share) else TREATMENT

    def _assign(self, experiment_id: str, unit: str, variant: str) -> None:
        self.runtime.emit(
            Assignment(
                record_id=f"assignment/{experiment_id}/{self.session_id}",
                at=self.runtime.now(),
                experiment_id=experiment_id,
                unit=unit,
                session_id=self.session_id,
                variant=variant,
            )
        )


def served_arm(assigned: str, *, killed: bool) -> str:
    """The arm whose state is served: the assigned one, or the champion once the kill switch is on."""
    return TREATMENT if assigned == TREATMENT and not killed else CONTROL
