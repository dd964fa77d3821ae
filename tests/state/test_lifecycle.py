"""Promote, roll back, restore, approve, reject, trip, confirm and expire, with crashes and clock steps,
against a pure model; on the ledger in memory and on SQLite."""

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from arranged import AGENT, PROMPT, PROOFS, START
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from lifecycle_model import LAYERS, Change, Model

from prx.domain.answers import Passed
from prx.domain.changes import PromptPatch, ReplaceAll, StrategyPatch
from prx.domain.errors import Conflict, IllegalTransition, InvalidInput
from prx.domain.events import Breaker
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.domain.proposals import ProofStep, Proposal, ProposalState
from prx.domain.records import PromptSeen
from prx.domain.versions import PromptSet, Strategy, Version
from prx.engine.context import Context, Models
from prx.engine.engine import Engine
from prx.engine.filing import Filing, file_proposal
from prx.engine.lease import LEASE, Busy, leased
from prx.engine.report import Report
from prx.engine.turn import Turn
from prx.engine.undo import Alarm, undo
from prx.ledger import open_memory, open_sqlite, verify_chain
from prx.records.memory import open_memory as memory_records
from prx.settings import Settings, Watch
from prx.views.fitness import rules_from

WON = ProofStep(name="experiment", answer="pass", why="arranged", at=START, evidence="live")
TAKEN = ("watching", "confirmed")
LAYER = st.sampled_from(LAYERS)
PICK = st.integers(0, 10_000)
NEVER, EFFECT = 10**9, 2
DIES = st.sampled_from([NEVER, NEVER, NEVER, NEVER, 1, EFFECT, 3])


class Crash(Exception):
    """The process dies."""


class Mortal:
    """A ledger whose process dies just before its nth commit: that transaction leaves nothing, and no later
    one happens until another process takes over."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.left = inner, NEVER

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @contextmanager
    def transaction(self, **given: Any) -> Iterator[Any]:
        if self.left <= 0:
            raise Crash
        with self.inner.transaction(**given) as tx:
            yield tx
            self.left -= 1
            if self.left <= 0:
                raise Crash


class Lifecycle(RuleBasedStateMachine):
    """One agent; `model` is what should be true."""

    on_disk = False

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.ids = Ids(random.Random(5))
        self.ledger = Mortal(self.opened())
        given = Settings(enabled=True, watch=Watch(max_failed_cycles=10_000))
        context = Context(
            ledger=self.ledger,  # type: ignore[arg-type]
            records=memory_records(),
            settings=given,
            fitness=rules_from(given),
            ids=self.ids,
            models=Models(),
        )
        self.engine, self.context = Engine(context), context
        self.now, self.at, self.waited = START, START, False
        self.model, self.real, self.count = Model(), dict[str, str](), 0
        seen = PromptSeen(record_id="prompt", at=START, agent=AGENT, name="support", text=PROMPT)
        context.records.append([seen])
        self.engine.score(START)

    def opened(self) -> Any:
        return (
            open_sqlite(Path(self.folder.name) / "ledger.sqlite", self.ids)
            if self.on_disk
            else open_memory(self.ids)
        )

    def teardown(self) -> None:
        self.ledger.close()
        self.folder.cleanup()

    def attempt(self, act: Any, *, legal: bool, dies: int) -> bool:
        """Whether the act took effect. It takes the agent's lease, commits, and gives the lease back; `dies`
        is the commit that its process does not live to see, and a lease of the dead runs out by itself."""
        self.ledger.left, self.at = dies, self.now
        try:
            act()
        except Crash:
            self.now += LEASE
            self.waited = False
            return legal and dies > EFFECT
        except Busy:
            # a lease of the dead that ends in the future again once the clock was set back: it is over soon
            assert not self.waited
            self.now += LEASE
            self.waited = True
            return False
        except (Conflict, InvalidInput, IllegalTransition):
            assert not legal
            return False
        finally:
            self.ledger.left = NEVER
        assert legal
        self.waited = False
        return True

    def of(self, pick: int, *states: str) -> Change | None:
        found = [one for one in self.model.changes.values() if not states or one.state in states]
        return found[pick % len(found)] if found else None

    @rule(layer=LAYER)
    def propose(self, layer: Layer) -> None:
        self.count += 1
        if len(self.of_state("awaiting_approval")) >= 8:
            return
        edit: Any = PromptPatch(prompt="support", ops=(ReplaceAll(text=f"You help, in way {self.count}."),))
        if layer is Layer.STRATEGY:
            with self.ledger.view() as view:
                part = view.part(view.version(AGENT, self.served()).manifest.strategy)
            edit = StrategyPatch(path="router.beta", old=part.router.beta, new=self.count / 1000)
        filing = Filing(
            AGENT, edit, "a change", "a reason", "a finding", "engine:rule", f"f{self.count}", 0.3, 500
        )
        with self.ledger.transaction(now=self.now, actor="engine") as tx:
            proposal = file_proposal(tx, filing)
            for state in ("gated", "shadowing", "judged", "awaiting_approval"):
                proposal = tx.move(proposal, ProposalState(state), why="arranged", proofs=(*PROOFS, WON))
        key = f"c{self.count}"
        self.real[key] = proposal.proposal_id
        self.model.changes[key] = Change(key, layer, self.model.stacks[layer], self.now)

    @rule(layer=LAYER)
    def serve(self, layer: Layer) -> None:
        """Propose and approve at once, where the breaker allows."""
        self.propose(layer)
        change = self.model.changes.get(f"c{self.count}")
        if change and self.model.may_serve(change, self.now):
            self.attempt(
                lambda: self.engine.approve(self.real[change.key], actor="person:ann", now=self.now),
                legal=True,
                dies=NEVER,
            )
            if not self.waited:
                self.model.promote(change, self.at)

    def of_state(self, state: str) -> list[Change]:
        return [one for one in self.model.changes.values() if one.state == state]

    @rule(pick=PICK, dies=DIES)
    def approve(self, pick: int, dies: int) -> None:
        change = self.of(pick)
        if change is None:
            return
        legal = change.state == "awaiting_approval" and self.model.may_serve(change, self.now)

        def act() -> None:
            self.engine.approve(self.real[change.key], actor="person:ann", now=self.now)

        if self.attempt(act, legal=legal, dies=dies):
            self.model.promote(change, self.at)

    @rule(pick=PICK, dies=DIES)
    def reject(self, pick: int, dies: int) -> None:
        change = self.of(pick)
        if change is None:
            return

        def act() -> None:
            self.engine.reject(self.real[change.key], actor="person:ann", why="no", now=self.now)

        if self.attempt(act, legal=change.state == "awaiting_approval", dies=dies):
            self.model.changes[change.key] = replace(change, state="rejected")

    @rule(pick=PICK, dies=DIES)
    def confirm(self, pick: int, dies: int) -> None:
        change = self.of(pick)
        if change is None:
            return

        def act() -> None:
            self.engine.confirm(self.real[change.key], actor="person:ann", now=self.now)

        if self.attempt(act, legal=change.state == "watching", dies=dies):
            self.model.confirm(change, self.at)

    @rule(pick=PICK, dies=DIES)
    def trip(self, pick: int, dies: int) -> None:
        in_force = {key for stack in self.model.stacks.values() for key in stack}
        found = [one for one in self.model.changes.values() if one.state in TAKEN and one.key in in_force]
        if not found:
            return
        change = found[pick % len(found)]

        def act() -> None:
            with leased(self.context, AGENT, self.now) as lease:
                turn = Turn(self.context, lease, AGENT, self.now, Report())
                with self.ledger.view() as view:
                    version = view.version(AGENT, f"v1.{change.version}")
                undo(turn, version, Alarm("breaker", "it failed", {}, ()))

        if self.attempt(act, legal=True, dies=dies):
            self.model.trip(change, self.at)

    @rule(pick=PICK, by_snapshot=st.booleans(), dies=DIES)
    def restore(self, pick: int, by_snapshot: bool, dies: int) -> None:
        number = pick % len(self.model.versions)

        def act() -> None:
            with self.ledger.view() as view:
                snapshot = view.version(AGENT, f"v1.{number}").snapshot_id
            named: Any = {"snapshot": snapshot} if by_snapshot else {"target": f"v1.{number}"}
            self.engine.rollback(AGENT, actor="person:ann", now=self.now, **named)

        if self.attempt(act, legal=number != self.model.served, dies=dies):
            self.model.go_back(number, self.at)

    @rule(pick=PICK, layer=LAYER, dies=DIES)
    def restore_a_layer(self, pick: int, layer: Layer, dies: int) -> None:
        number = pick % len(self.model.versions)

        def act() -> None:
            self.engine.rollback(AGENT, actor="person:ann", now=self.now, target=f"v1.{number}", layer=layer)

        legal = self.model.versions[number][layer] != self.model.stacks[layer]
        if self.attempt(act, legal=legal, dies=dies):
            self.model.mix(layer, number, self.at)

    @rule(hours=st.sampled_from([0.1, 5, 23.9, 49, 169, 24 * 61]))
    def time_passes(self, hours: float) -> None:
        self.now += timedelta(hours=hours)
        self.engine.advance(self.now)
        self.model.pass_time(self.now)

    @rule(hours=st.sampled_from([0.5, 2, 30]))
    def the_clock_is_set_back(self, hours: float) -> None:
        self.now -= timedelta(hours=hours)

    @precondition(lambda self: self.on_disk)
    @rule()
    def the_process_starts_again(self) -> None:
        self.ledger.close()
        self.ledger.inner = self.opened()

    def served(self) -> str:
        with self.ledger.view() as view:
            pointer = view.pointer(AGENT)
        assert pointer is not None
        return str(pointer.label)

    @invariant()
    def one_version_serves_and_holds_what_it_should(self) -> None:
        with self.ledger.view() as view:
            pointer = view.pointer(AGENT)
            versions = {one.label: one for one in view.find(Version, agent=AGENT)}
            assert pointer.label == f"v1.{self.model.served}"
            assert pointer.revision == self.model.moves
            assert set(versions) == {f"v1.{n}" for n in range(len(self.model.versions))}
            for number, stacks in enumerate(self.model.versions):
                manifest = versions[f"v1.{number}"].manifest
                assert self.told(view.part(manifest.prompt)) == (stacks[Layer.PROMPT][-1:] or ("",))[0]
                assert self.told(view.part(manifest.strategy)) == (stacks[Layer.STRATEGY][-1:] or ("",))[0]

    def told(self, part: PromptSet | Strategy) -> str:
        """Key of the change that made a part; empty for the first one."""
        if isinstance(part, PromptSet):
            text = part.texts["support"]
            return "" if text == PROMPT else f"c{text.removesuffix('.').rsplit(' ', 1)[1]}"
        return "" if part.router == Strategy().router else f"c{round(part.router.beta * 1000)}"

    @invariant()
    def every_change_stands_where_it_should(self) -> None:
        with self.ledger.view() as view:
            for key, change in self.model.changes.items():
                assert view.get(Proposal, self.real[key]).state.value == change.state, key

    @invariant()
    def every_breaker_is_as_it_should_be(self) -> None:
        with self.ledger.view() as view:
            for layer, gate in self.model.gates.items():
                found = view.maybe(Breaker, f"{AGENT}/{layer}")
                permit = self.real[gate.permit] if gate.permit else None
                expected = (gate.state, gate.until, gate.trips, permit)
                assert expected == (
                    (found.state, found.until, found.trips, found.permit)
                    if found
                    else ("closed", None, 0, None)
                )

    @invariant()
    def the_log_is_whole_and_has_a_row_for_every_move(self) -> None:
        with self.ledger.view() as view:
            rows = list(view.audit_rows())
        assert isinstance(verify_chain(rows), Passed)
        kinds = [row.kind for row in rows]
        assert kinds.count("pointer.moved") == self.model.moves
        assert kinds.count("version.added") == len(self.model.versions)


class OnDisk(Lifecycle):
    """The same over SQLite, where the process also closes and opens the file."""

    on_disk = True


QUICK = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
LONG = settings(QUICK, max_examples=400, stateful_step_count=50)


@pytest.mark.parametrize("machine", [Lifecycle, OnDisk])
def test_what_the_ledger_holds_is_what_the_model_says(machine: type[Lifecycle]) -> None:
    quick = QUICK if machine is Lifecycle else settings(QUICK, max_examples=8)
    run(machine, quick)


@pytest.mark.slow
@pytest.mark.parametrize("machine", [Lifecycle, OnDisk])
def test_what_the_ledger_holds_is_what_the_model_says_over_many_histories(machine: type[Lifecycle]) -> None:
    run(machine, LONG)


def run(machine: type[Lifecycle], how: settings) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(machine, settings=how)


def test_a_restore_of_another_branch_settles_every_change_that_it_leaves() -> None:
    machine = Lifecycle()
    for act in (
        lambda: machine.serve(layer=Layer.PROMPT),
        lambda: machine.serve(layer=Layer.PROMPT),
        lambda: machine.restore(pick=0, by_snapshot=False, dies=NEVER),
        lambda: machine.serve(layer=Layer.PROMPT),
        lambda: machine.serve(layer=Layer.STRATEGY),
        lambda: machine.restore(pick=2, by_snapshot=False, dies=NEVER),
    ):
        act()
        machine.one_version_serves_and_holds_what_it_should()
        machine.every_change_stands_where_it_should()
    assert machine.model.served == 2
    assert {one.state for one in machine.model.changes.values()} == {"rolled_back"}
    machine.teardown()
