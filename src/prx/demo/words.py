"""The engine's steps in a newcomer's words, a line or two each; what only repeats is left out."""

from dataclasses import dataclass

from prx.domain.changes import (
    AddExample,
    AddLine,
    MemoryAdd,
    MemoryPatch,
    PromptPatch,
    ReplaceLine,
    StrategyPatch,
)
from prx.domain.experiments import Experiment
from prx.domain.findings import Finding, FindingKind
from prx.domain.layers import Layer
from prx.domain.plaintext import quoted
from prx.domain.promptlines import label_of
from prx.domain.proposals import Proposal

LAYERS = {Layer.MEMORY: "L1 memory", Layer.PROMPT: "L2 prompt", Layer.STRATEGY: "L3 routing"}
_LONG = 90


@dataclass(frozen=True, slots=True)
class Scene:
    """One thing worth telling: the simulated day, a headline, what it is, and why it matters."""

    day: float
    headline: str
    text: str
    mark: str = ""


def idea(proposal: Proposal) -> str:
    """A proposal in a few words."""
    change = proposal.change
    if isinstance(change, StrategyPatch):
        return f"set {change.path} to {change.new}"
    if isinstance(change, MemoryPatch):
        kept = sum(isinstance(op, MemoryAdd) for op in change.ops)
        if kept == len(change.ops):
            return "store an answer that users agree on"
        return f"put {kept} summary in place of {len(change.ops) - kept} notes that say the same"
    assert isinstance(change, PromptPatch)
    op = change.ops[0]
    if isinstance(op, ReplaceLine):
        return f"say more about {label_of(op.new) or 'a line'}: {_news(op.old, op.new)}"
    if isinstance(op, AddLine):
        return f"add the line {quoted(op.text, 50)!r}"
    if isinstance(op, AddExample):
        return f"add an example that is answered {quoted(op.answer, 30)!r}"
    return "a new text by a person" if proposal.trigger == "person" else "an edit of the prompt"


def weakness(finding: Finding) -> str:
    """What a finding says, in a few words."""
    rate = finding.rate
    if finding.kind is FindingKind.PROMPT_WEAKNESS and rate:
        rest = rate.rest_count / max(1, rate.rest_total)
        return f"{rate.count / rate.total:.0%} of answers on {finding.intent} are wrong, elsewhere {rest:.0%}"
    if finding.kind is FindingKind.REPEATED_FAILURE and rate:
        return f"{finding.model} fails {rate.count / rate.total:.0%} of {finding.intent}"
    if finding.kind is FindingKind.COST_INEFFICIENCY:
        return f"{finding.alternative} does {finding.intent} as well as {finding.model}, for less"
    if finding.kind is FindingKind.LATENCY_OUTLIER:
        return f"{finding.model or finding.tool} is {finding.numbers.get('ratio', 0):.1f} times slower"
    return f"nothing stored helps with {finding.intent}"


def verdict(experiment: Experiment) -> str:
    """The numbers of an experiment's last look."""
    look = experiment.looks[-1]
    sessions = f"{look.control_sessions} against {look.treatment_sessions} visits"
    if look.difference is None:
        return sessions
    p = "" if look.p_value is None else f", p {look.p_value:.2g}"
    return f"{look.difference:+.3f} fitness over {sessions}{p}"


def short(text: str) -> str:
    """The first clause, cut where it is long, without internal ids."""
    words = [word for word in text.split() if len(word.strip(";:,.")) != 36]
    plain = " ".join(words)
    return plain if len(plain) <= _LONG else plain[: _LONG - 1].rsplit(" ", 1)[0] + "…"


def _news(old: str, new: str) -> str:
    before, after = old.rstrip(". "), new.rstrip(". ")
    added = after[len(before) :] if after.startswith(before) else after
    return quoted(added.strip(" ,()"), 60)
