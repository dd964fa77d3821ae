"""Whether an experiment's numbers may be read at all: assignment, exposure, contamination, losses."""

from typing import Any

from prx.domain.answers import Answer
from prx.domain.experiments import Experiment
from prx.engine.trialdata import TrialRows
from prx.engine.trialrecord import plan_of
from prx.stats.losses import LossBlock, loss_answer
from prx.stats.validity import contamination_answer, exposure_answer, ratio_answer


def validity(experiment: Experiment, rows: TrialRows) -> tuple[Answer, ...]:
    """One answer per check, over this tick's sessions and those of the looks before it."""
    plan = plan_of(experiment)
    share = (1.0 - plan.traffic_split, plan.traffic_split)
    before = [tuple(look.extra["units"]) for look in experiment.looks if "units" in look.extra]
    looks = [*before, rows.units()]
    control, treatment = rows.control, rows.treatment
    return (
        ratio_answer(looks, share),
        exposure_answer(
            (control.exposures(), treatment.exposures()),
            exposed_unassigned=rows.exposed_unassigned,
            in_both_arms=rows.in_both_arms,
        ),
        contamination_answer(
            (control.sessions, treatment.sessions), (control.served_other, treatment.served_other)
        ),
        loss_answer(_loss_blocks(experiment, rows)),
    )


def losses(rows: TrialRows) -> dict[str, Any]:
    """Sessions due and sessions without a call, by arm, as every look keeps them."""
    control, treatment = rows.control, rows.treatment
    return {
        "due": [control.sessions, treatment.sessions],
        "lost": [control.without_call, treatment.without_call],
    }


def _loss_blocks(experiment: Experiment, rows: TrialRows) -> list[LossBlock]:
    told = [look.extra for look in experiment.looks if "due" in look.extra] + [losses(rows)]
    blocks, before = [], {"due": [0, 0], "lost": [0, 0]}
    for counted in told:
        due = [max(0, n - o) for n, o in zip(counted["due"], before["due"], strict=True)]
        lost = [max(0, n - o) for n, o in zip(counted["lost"], before["lost"], strict=True)]
        blocks.append(LossBlock(due[0], due[1], min(lost[0], due[0]), min(lost[1], due[1])))
        before = counted
    return blocks
