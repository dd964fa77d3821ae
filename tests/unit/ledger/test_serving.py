"""What the hot path is given."""

from datetime import timedelta
from typing import Any

import msgspec
from ledger_samples import NOW, seeded_ids, store_parts, version, write

from prx.domain.baselines import Baseline
from prx.domain.events import Control
from prx.domain.experiments import Experiment, ExperimentStatus, Plan, Variant
from prx.domain.layers import Layer
from prx.domain.serving import ServedExperiment, Serving
from prx.domain.versions import PromptSet, Strategy
from prx.ledger import Ledger, open_memory, serving

PLAN = Plan(
    traffic_split=0.5,
    ramp=0.1,
    confidence_level=0.95,
    min_effect_size=0.02,
    effect_scale="absolute",
    min_sample_size=100,
    min_units=100,
    default_duration_hours=168,
    min_duration_hours=24,
    max_duration_hours=720,
    check_interval_hours=6,
    outcome_window_hours=24,
    randomization_unit="user",
    spending="obf",
    planned_sample="forecast",
    planned_looks=5,
    act_on_futility=False,
    weights={},
    rho=0.0,
    max_regression=0.1,
    ramp_salt="ramp-1",
    variant_salt="variant-1",
)
TREATED = PromptSet(texts={"system": "Be brief."})
FASTER = Strategy(automix_threshold=0.9)


def served(ledger: Ledger, agent: str = "default") -> Serving:
    with ledger.view() as view:
        return serving(view, agent)


def with_champion(ledger: Ledger) -> None:
    def work(tx: Any) -> None:
        tx.add_version(version(tx))
        tx.point("default", "v1.0", expected=None)

    write(ledger, work)


def experiment(ledger: Ledger, layer: Layer, **fields: Any) -> Experiment:
    def work(tx: Any) -> Experiment:
        control = store_parts(tx, {"system": "You help, v1.0."})
        treated = control.with_part(layer, tx.put_part(TREATED if layer is Layer.PROMPT else FASTER))
        made = Experiment(
            experiment_id=f"x-{layer}",
            decision_id="d",
            layer=layer,
            status=ExperimentStatus.RUNNING,
            created_at=NOW,
            control=Variant(name="control", description="", manifest=control),
            treatment=Variant(name="treatment", description="", manifest=treated),
            plan=PLAN,
        )
        made = msgspec.structs.replace(made, **fields)
        tx.put(made)
        return made

    return write(ledger, work)


def test_an_agent_without_a_version_serves_nothing_but_knows_its_baselines() -> None:
    ledger = open_memory(seeded_ids())
    write(
        ledger, lambda tx: tx.put(Baseline(baseline_id="a/p", agent="a", name="p", text_hashes=("sha256:1",)))
    )
    assert served(ledger, "a") == Serving(agent="a", baselines={"p": ("sha256:1",)})
    assert served(ledger, "b") == Serving(agent="b")


def test_the_champion_is_what_the_pointer_names() -> None:
    ledger = open_memory(seeded_ids())
    with_champion(ledger)
    write(ledger, lambda tx: tx.add_version(version(tx, "v1.1")))
    assert served(ledger).prompts == {"system": "You help, v1.0."}
    write(ledger, lambda tx: tx.point("default", "v1.1", expected=1))
    now = served(ledger)
    assert (now.version, now.revision, now.prompts) == ("v1.1", 2, {"system": "You help, v1.1."})
    assert now.strategy == Strategy()


def test_a_running_experiment_brings_the_treated_part_of_its_own_layer_only() -> None:
    ledger = open_memory(seeded_ids())
    with_champion(ledger)
    experiment(ledger, Layer.PROMPT)
    experiment(ledger, Layer.STRATEGY)
    given = {
        "ramp": 0.1,
        "traffic_split": 0.5,
        "ramp_salt": "ramp-1",
        "variant_salt": "variant-1",
        "randomization_unit": "user",
    }
    assert served(ledger).experiments == (
        ServedExperiment(experiment_id="x-prompt", layer=Layer.PROMPT, prompts=TREATED.texts, **given),
        ServedExperiment(experiment_id="x-strategy", layer=Layer.STRATEGY, strategy=FASTER, **given),
    )


def test_an_experiment_that_does_not_run_or_is_not_planned_or_not_ours_is_left_out() -> None:
    ledger = open_memory(seeded_ids())
    with_champion(ledger)
    experiment(ledger, Layer.PROMPT, status=ExperimentStatus.EVALUATING)
    experiment(ledger, Layer.STRATEGY, plan=None)
    assert served(ledger).experiments == ()
    experiment(ledger, Layer.STRATEGY, agent="other")
    assert served(ledger).experiments == ()


def test_the_kill_switch_leaves_only_the_champion() -> None:
    ledger = open_memory(seeded_ids())
    with_champion(ledger)
    experiment(ledger, Layer.PROMPT)
    write(ledger, lambda tx: tx.put(Control(agent="default", killed=True)), at=NOW + timedelta(hours=1))
    now = served(ledger)
    assert now.killed
    assert now.experiments == ()
    assert now.prompts == {"system": "You help, v1.0."}
