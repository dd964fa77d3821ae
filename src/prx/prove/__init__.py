"""Proof of a change before it meets users: gate, replay, golden cases, shadow run, judge.

Everything here takes values and gives `ProofStep`s; `overall` makes one answer of several steps.
"""

from prx.prove.applying import treated_part
from prx.prove.calibration import Calibration, Corrected, calibrate, corrected_rate
from prx.prove.checkers import find_checker
from prx.prove.gate import gate
from prx.prove.gateinput import GateInput
from prx.prove.golden import GoldenCase, golden
from prx.prove.judge import Judged, judge, judge_verdict, refused
from prx.prove.judgements import (
    CheckerJudge,
    JudgeState,
    ModelJudge,
    empty_state,
    judge_slice,
    judge_task,
    references,
    rubric_scorer,
)
from prx.prove.operator_checks import run_checks
from prx.prove.pairs import AnsweredPair, PairState, Slice, checker_scorer
from prx.prove.port import Checker, Truth, Unscored
from prx.prove.rebuild import PromptSwap
from prx.prove.replay import replay_slice, replay_verdict
from prx.prove.rules import GateRules, JudgeRules, OperatorCheck, ReplayRules, RunRules, ShadowRules
from prx.prove.shadow import shadow_slice, shadow_verdict
from prx.prove.steps import TRANSIENT_CODES, overall, proof_step
from prx.prove.tasks import Task, tasks_from

__all__ = [
    "TRANSIENT_CODES",
    "AnsweredPair",
    "Calibration",
    "Checker",
    "CheckerJudge",
    "Corrected",
    "GateInput",
    "GateRules",
    "GoldenCase",
    "JudgeRules",
    "JudgeState",
    "Judged",
    "ModelJudge",
    "OperatorCheck",
    "PairState",
    "PromptSwap",
    "ReplayRules",
    "RunRules",
    "ShadowRules",
    "Slice",
    "Task",
    "Truth",
    "Unscored",
    "calibrate",
    "checker_scorer",
    "corrected_rate",
    "empty_state",
    "find_checker",
    "gate",
    "golden",
    "judge",
    "judge_slice",
    "judge_task",
    "judge_verdict",
    "overall",
    "proof_step",
    "references",
    "refused",
    "replay_slice",
    "replay_verdict",
    "rubric_scorer",
    "run_checks",
    "shadow_slice",
    "shadow_verdict",
    "tasks_from",
    "treated_part",
]
