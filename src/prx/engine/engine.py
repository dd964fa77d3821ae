"""The engine: what the worker, the command line and the demo call, and nothing else does."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from prx.domain.answers import NotEnoughData
from prx.domain.events import Control, Incident
from prx.domain.experiments import Experiment
from prx.domain.layers import Layer
from prx.domain.memory import MemoryStats
from prx.domain.proposals import Proposal
from prx.engine import people
from prx.engine.alerts import raise_alert, resolve_alert
from prx.engine.attempt import attempt, fenced
from prx.engine.breakers import tick_breakers
from prx.engine.context import Context, control_of
from prx.engine.cycle import analyse_dry, analyse_when_due, evolve_when_due, tend_now
from prx.engine.failing import settle_cycles
from prx.engine.health import check_alerts
from prx.engine.intake import freeze_token_targets, score_sessions
from prx.engine.judging import judge_live
from prx.engine.lease import NoLease, leased
from prx.engine.memorypath import memory_stats, sync_memory
from prx.engine.ownprompts import register_prompts
from prx.engine.path import advance_proposals
from prx.engine.report import Report
from prx.engine.timetable import due, ran
from prx.engine.trials import tick_experiments
from prx.engine.trialstart import plan_for
from prx.engine.turn import Turn
from prx.engine.watching import tick_watches
from prx.propose.tending import Task
from prx.release.rollback import RollbackResult, plan_rollback

SCORING = "scoring"
BREAKER, WATCH, ALERTS = "breaker", "watch", "alerts"
WATCH_EVERY = ALERTS_EVERY = timedelta(hours=1)


class Engine:
    """Executes what is due for every agent; every change goes through one lease per agent."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def advance(self, now: datetime, *, safety_only: bool = False) -> Report:
        """Do everything that is due at `now`. Safe to call at any time and from several processes.

        An error in one step is a step of the report and an alert; the other steps and agents go on.
        `safety_only`: breakers, watches and alerts, and nothing else.
        """
        report = Report()
        fenced(report, SCORING, "every agent", lambda: self.score(now, report))
        for agent in self._agents():
            fenced(report, "turn", agent, partial(self._advance, agent, now, report, safety_only=safety_only))
        return report

    def score(self, now: datetime, report: Report | None = None) -> int:
        """Bring registered prompts and session scores up to date; returns how many sessions were scored."""
        told = report if report is not None else Report()
        scored = score_sessions(self.context, now, told)
        sync_memory(self.context, now, told)
        register_prompts(self.context, now, told)
        for agent in self._agents():
            freeze_token_targets(self.context, agent, now, told)
        return scored

    def trigger(self, agent: str, layer: Layer, now: datetime, *, dry_run: bool = False) -> Report:
        """Analyse and propose for one layer now, whatever the schedule says.

        A dry run tells what would be found and proposed and writes nothing, not even a lease; only what a
        proposer model costs is still counted.
        """
        report = Report()
        if dry_run:
            turn = Turn(self.context, NoLease(self.context, agent, ""), agent, now, report)
            evolve_when_due(turn, layers=(layer,), dry_run=True, found=analyse_dry(turn))
            return report
        self.score(now, report)
        with self._turn(agent, now, report) as turn:
            analyse_when_due(turn, force=True)
            evolve_when_due(turn, layers=(layer,))
            advance_proposals(turn)
        return report

    def tend_memory(
        self, agent: str, tasks: tuple[Task, ...], now: datetime, *, dry_run: bool = False
    ) -> Report:
        """Compact or prune the memory now, whatever its schedule says; nothing skips gate and replay. A dry
        run writes nothing."""
        report = Report()
        if dry_run:
            tend_now(
                Turn(self.context, NoLease(self.context, agent, ""), agent, now, report), tasks, dry_run=True
            )
            return report
        self.score(now, report)
        with self._turn(agent, now, report) as turn:
            tend_now(turn, tasks, dry_run=False)
            advance_proposals(turn)
        return report

    def memory_stats(self, agent: str, now: datetime) -> MemoryStats:
        """What the agent's memory holds."""
        return memory_stats(self.context, agent, now)

    def approve(self, proposal_id: str, *, actor: str, now: datetime, simulated: bool = False) -> Proposal:
        """Say yes to a proposal that waits for approval."""
        with self._turn_of(proposal_id, now) as turn:
            return people.approve(turn, proposal_id, actor, simulated=simulated)

    def reject(self, proposal_id: str, *, actor: str, why: str, now: datetime) -> Proposal:
        """Say no to a proposal in any open state."""
        with self._turn_of(proposal_id, now) as turn:
            return people.reject(turn, proposal_id, actor, why)

    def confirm(self, proposal_id: str, *, actor: str, now: datetime) -> Proposal:
        """End the watch of a promoted proposal early."""
        with self._turn_of(proposal_id, now) as turn:
            return people.confirm_change(turn, proposal_id, actor)

    def propose_prompt(self, agent: str, name: str, text: str, *, actor: str, now: datetime) -> Proposal:
        """File a person's text of a prompt; it takes the same path as the engine's own proposals."""
        self.score(now)
        with self._turn(agent, now, Report()) as turn:
            return people.propose_prompt(turn, name, text, actor)

    def rollback(
        self,
        agent: str,
        *,
        target: str | None = None,
        layer: Layer | None = None,
        snapshot: str | None = None,
        operation: str | None = None,
        actor: str,
        now: datetime,
    ) -> RollbackResult:
        """Undo the last change, or restore a version, a snapshot, or one layer of it."""
        with self._turn(agent, now, Report()) as turn:
            return people.rollback(
                turn, actor, target=target, layer=layer, snapshot=snapshot, operation=operation
            )

    def rollback_preview(
        self,
        agent: str,
        *,
        target: str | None = None,
        layer: Layer | None = None,
        snapshot: str | None = None,
    ) -> str:
        """What `rollback` with the same arguments would do, in one sentence."""
        with self.context.ledger.view() as view:
            return plan_rollback(view, agent, target=target, layer=layer, snapshot=snapshot).describe()

    def cancel_experiment(self, experiment_id: str, *, actor: str, now: datetime) -> Experiment:
        """Stop an experiment; control serves at once."""
        with self._turn_of_experiment(experiment_id, now) as turn:
            return people.cancel(turn, experiment_id, actor)

    def converge_experiment(self, experiment_id: str, *, actor: str, now: datetime) -> Experiment:
        """End an experiment by what its data conclude now."""
        self.score(now)
        with self._turn_of_experiment(experiment_id, now) as turn:
            return people.converge_by_hand(turn, experiment_id, actor)

    def create_aa(self, agent: str, layer: Layer, *, actor: str, now: datetime) -> Experiment:
        """Start an A/A test."""
        self.score(now)
        with self._turn(agent, now, Report()) as turn:
            return people.create_aa(turn, layer, actor)

    def plan_experiment(self, agent: str, layer: Layer, now: datetime) -> dict[str, Any]:
        """The forecast that an experiment created now would print; creates nothing."""
        self.score(now)
        with self.context.ledger.view() as view:
            plan = plan_for(self.context, view, agent, layer, now=now, automatic=False)
        return {"not_enough_data": plan.why} if isinstance(plan, NotEnoughData) else plan.forecast

    def pause(self, agent: str, *, actor: str, why: str, now: datetime) -> Control:
        """No new proposals and no experiment steps; breakers and watches go on."""
        with self._turn(agent, now, Report()) as turn:
            return people.pause(turn, actor, why)

    def resume(self, agent: str, *, actor: str, why: str, now: datetime) -> Control:
        """Go on after a pause or a kill."""
        with self._turn(agent, now, Report()) as turn:
            return people.resume(turn, actor, why)

    def kill(self, agent: str, *, actor: str, why: str, now: datetime) -> Control:
        """Everything to the champion: experiments end, nothing runs until resumed."""
        with self._turn(agent, now, Report()) as turn:
            return people.kill(turn, actor, why)

    def acknowledge(self, agent: str, incident_id: str, *, actor: str, now: datetime) -> Incident:
        """A person has read an incident."""
        with self._turn(agent, now, Report()) as turn:
            return people.acknowledge(turn, incident_id, actor)

    def _advance(self, agent: str, now: datetime, report: Report, *, safety_only: bool) -> None:
        with self._turn(agent, now, report) as turn:
            unscored = {one for one in report.broken if one.startswith(SCORING)}
            before = report.broken - unscored
            _tell_of_scoring(turn, unscored)
            self._safety(turn)
            with turn.view() as view:
                control = control_of(view, agent)
            if not (safety_only or control.paused or control.killed):
                self._work(turn)
            attempt(turn, "failed cycles", agent, lambda: settle_cycles(turn, report.broken - before))

    def _safety(self, turn: Turn) -> None:
        """Before anything else, and while paused too: what may undo a change, and what people must hear."""
        every = timedelta(minutes=turn.settings.breaker.check_interval_minutes)
        for job, work, pause in (
            (BREAKER, tick_breakers, every),
            (WATCH, tick_watches, WATCH_EVERY),
            (ALERTS, check_alerts, ALERTS_EVERY),
        ):
            attempt(turn, job, turn.agent, partial(_when_due, turn, job, work, pause))

    def _work(self, turn: Turn) -> None:
        """The slow loop, each part fenced from the others."""
        agent = turn.agent
        attempt(turn, "live judging", agent, lambda: judge_live(turn))
        attempt(turn, "experiments", agent, lambda: tick_experiments(turn))
        attempt(turn, "analysis", agent, lambda: analyse_when_due(turn))
        if turn.settings.enabled:
            attempt(turn, "evolve", agent, lambda: evolve_when_due(turn))
        attempt(turn, "proposals", agent, lambda: advance_proposals(turn))

    def _agents(self) -> tuple[str, ...]:
        with self.context.ledger.view() as view:
            known = set(view.agents())
        return tuple(sorted(known))

    @contextmanager
    def _turn(self, agent: str, now: datetime, report: Report) -> Iterator[Turn]:
        with leased(self.context, agent, now) as lease:
            yield Turn(self.context, lease, agent, now, report)

    @contextmanager
    def _turn_of(self, proposal_id: str, now: datetime) -> Iterator[Turn]:
        with self.context.ledger.view() as view:
            agent = view.get(Proposal, proposal_id).agent
        with self._turn(agent, now, Report()) as turn:
            yield turn

    @contextmanager
    def _turn_of_experiment(self, experiment_id: str, now: datetime) -> Iterator[Turn]:
        with self.context.ledger.view() as view:
            agent = view.get(Experiment, experiment_id).agent
        with self._turn(agent, now, Report()) as turn:
            yield turn


def _tell_of_scoring(turn: Turn, broken: set[str]) -> None:
    """Old scores hide new failures from breakers and watches: a person must hear of it."""

    def tell() -> None:
        if broken:
            why = (
                "sessions could not be scored; breakers and watches see old scores (`prx evolution advance`)"
            )
            raise_alert(turn, SCORING, why, {})
        else:
            resolve_alert(turn, SCORING, "sessions are scored again")

    attempt(turn, "alert", SCORING, tell)


def _when_due(turn: Turn, job: str, work: Callable[[Turn], object], every: timedelta) -> None:
    with turn.view() as view:
        if not due(view, turn.agent, job, turn.now):
            return
    work(turn)
    with turn.transaction() as tx:
        ran(tx, turn.agent, job, every=every)
