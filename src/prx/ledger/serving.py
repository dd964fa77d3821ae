"""What the hot path needs of one agent, read from the ledger."""

from collections.abc import Iterator

from prx.domain.baselines import Baseline, stood_for
from prx.domain.errors import NotFound, StoreError
from prx.domain.events import Control
from prx.domain.experiments import Experiment, ExperimentStatus
from prx.domain.holdback import Holdback, holdback_of
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal, ProposalState
from prx.domain.routing import ModelFacts, ModelTable
from prx.domain.serving import ServedExperiment, ServedHoldback, Serving
from prx.domain.versions import Manifest, PromptSet, Strategy
from prx.ledger.port import View


def serving(view: View, agent: str) -> Serving:
    """Champion, running experiments and kill switch of `agent`.

    `revision` is the pointer's. A killed agent has no experiments here, whatever runs; a running
    experiment without a plan admits nobody and is left out.
    Raises: NotFound, StoreError when a part of what is served is missing or damaged.
    """
    pointer, control = view.pointer(agent), view.maybe(Control, agent)
    killed = control is not None and control.killed
    registered = {one.name: one.text_hashes for one in view.find(Baseline, agent=agent)}
    if pointer is None:
        return Serving(agent=agent, killed=killed, baselines=registered)
    version = view.version(agent, pointer.label)
    manifest = version.manifest
    texts = {name: stood_for(hashes, version.own.get(name)) for name, hashes in registered.items()}
    running = () if killed else view.find(Experiment, agent=agent, state=ExperimentStatus.RUNNING)
    served = (_served(view, experiment) for experiment in running)
    return Serving(
        agent=agent,
        revision=pointer.revision,
        version=pointer.label,
        prompts=_prompts(view, manifest.prompt),
        strategy=_strategy(view, manifest.strategy),
        experiments=tuple(one for one in served if one is not None),
        holdbacks=() if killed else _holdbacks(view, agent, manifest),
        killed=killed,
        memory=manifest.memory,
        baselines={name: stands for name, (stands, _) in texts.items()},
        earlier={name: earlier for name, (_, earlier) in texts.items() if earlier},
        models=_models(view, agent),
    )


def _models(view: View, agent: str) -> tuple[ModelFacts, ...]:
    table = view.maybe(ModelTable, agent)
    return () if table is None else table.models


def _served(view: View, experiment: Experiment) -> ServedExperiment | None:
    plan, manifest = experiment.plan, experiment.treatment.manifest
    if plan is None:
        return None
    return ServedExperiment(
        experiment_id=experiment.experiment_id,
        layer=experiment.layer,
        ramp=plan.ramp,
        traffic_split=plan.traffic_split,
        ramp_salt=plan.ramp_salt,
        variant_salt=plan.variant_salt,
        randomization_unit=plan.randomization_unit,
        prompts=_prompts(view, manifest.prompt) if experiment.layer is Layer.PROMPT else None,
        strategy=_strategy(view, manifest.strategy) if experiment.layer is Layer.STRATEGY else None,
    )


def _holdbacks(view: View, agent: str, manifest: Manifest) -> tuple[ServedHoldback, ...]:
    """Of each layer the holdback of the watched change that serves; one that was built upon has ended."""
    found: list[ServedHoldback] = []
    for proposal in view.find(Proposal, agent=agent, state=ProposalState.WATCHING):
        if proposal.version is None:
            continue
        version = view.version(agent, proposal.version)
        plan = holdback_of(version)
        if plan and manifest.part(plan.layer) == version.manifest.part(plan.layer):
            found.extend(_held(view, plan))
    return tuple({one.plan.layer: one for one in found}.values())


def _held(view: View, plan: Holdback) -> Iterator[ServedHoldback]:
    """The holdback, or none where the previous part is gone or damaged: the change then serves everyone."""
    try:
        prompts = _prompts(view, plan.previous) if plan.layer is Layer.PROMPT else None
        strategy = _strategy(view, plan.previous) if plan.layer is Layer.STRATEGY else None
    except (NotFound, StoreError):
        return
    yield ServedHoldback(plan=plan, prompts=prompts, strategy=strategy)


def _prompts(view: View, part_hash: str) -> dict[str, str]:
    part = view.part(part_hash)
    if not isinstance(part, PromptSet):
        raise StoreError(
            f"part {part_hash} should be a prompt set and is {type(part).__name__}; run `prx doctor`"
        )
    return dict(part.texts)


def _strategy(view: View, part_hash: str) -> Strategy:
    part = view.part(part_hash)
    if not isinstance(part, Strategy):
        raise StoreError(
            f"part {part_hash} should be a strategy and is {type(part).__name__}; run `prx doctor`"
        )
    return part
