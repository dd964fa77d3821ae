"""Two acts on one agent at the same moment, over one SQLite file; and who opens that file."""

import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from arranged import AGENT, PROOFS, START

from prx.domain.answers import Passed
from prx.domain.changes import PromptPatch, ReplaceAll
from prx.domain.errors import Conflict, EvolutionError, IllegalTransition
from prx.domain.ids import system_ids
from prx.domain.layers import Layer
from prx.domain.proposals import ProofStep, Proposal, ProposalState
from prx.domain.versions import PromptSet, Version, VersionSource
from prx.engine.filing import Filing, file_proposal
from prx.ledger import Ledger, open_sqlite, verify_chain
from prx.release.promote import initial_version, new_version, promote
from prx.release.rollback import execute_rollback, plan_rollback

ROUNDS = 25
NOW = START + timedelta(hours=1)
WON = ProofStep(name="experiment", answer="pass", why="arranged", at=START, evidence="live")


def begun(path: Path) -> tuple[Ledger, str]:
    """A ledger whose v1.1 serves, and a proposal written on it."""
    ledger = open_sqlite(path, system_ids())
    with ledger.transaction(now=START, actor="engine") as tx:
        prompts = PromptSet(texts={"support": "Help."})
        initial_version(tx, AGENT, prompts=prompts, source=VersionSource.CLIENT, note="")
        better = PromptSet(texts={"support": "Help well."})
        new_version(tx, AGENT, Layer.PROMPT, better, source=VersionSource.OPERATOR, note="")
        edit = PromptPatch(prompt="support", ops=(ReplaceAll(text="Help best."),))
        filing = Filing(AGENT, edit, "a change", "a reason", "a finding", "engine:rule", "f", 0.3, 500)
        proposal = file_proposal(tx, filing)
        for state in ("gated", "shadowing", "judged", "awaiting_approval"):
            proposal = tx.move(proposal, ProposalState(state), why="arranged", proofs=(*PROOFS, WON))
    return ledger, proposal.proposal_id


def together(*acts: Callable[[], object]) -> list[str]:
    """Run the acts in threads that start at one moment; `done` or the class of the refusal of each."""
    barrier, said = threading.Barrier(len(acts)), ["" for _ in acts]

    def work(number: int) -> None:
        barrier.wait()
        try:
            acts[number]()
        except (Conflict, IllegalTransition, EvolutionError) as error:
            said[number] = type(error).__name__
        else:
            said[number] = "done"

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return said


def test_a_trip_and_a_promotion_at_once_end_as_if_one_came_first(tmp_path: Path) -> None:
    seen = set()
    for number in range(ROUNDS):
        ledger, key = begun(tmp_path / f"{number}.sqlite")
        other = open_sqlite(tmp_path / f"{number}.sqlite", system_ids())

        def serve(ledger: Ledger = ledger, key: str = key) -> None:
            with ledger.transaction(now=NOW, actor="engine") as tx:
                promote(tx, tx.get(Proposal, key), why="won", evidence="live", baseline={})

        def trip(other: Ledger = other) -> None:
            with other.transaction(now=NOW, actor="engine") as tx:
                execute_rollback(
                    tx, plan_rollback(tx, AGENT, target="v1.0"), why="it failed", detector="breaker"
                )

        said = together(serve, trip)
        with ledger.view() as view:
            pointer, proposal = view.pointer(AGENT), view.get(Proposal, key)
            assert isinstance(verify_chain(view.audit_rows()), Passed)
            labels = sorted(one.label for one in view.find(Version, agent=AGENT))
        assert pointer is not None
        found = (*said, pointer.label, proposal.state.value, tuple(labels))
        assert found in {
            ("done", "done", "v1.0", "rolled_back", ("v1.0", "v1.1", "v1.2")),
            ("Conflict", "done", "v1.0", "awaiting_approval", ("v1.0", "v1.1")),
        }
        seen.add(found)
        other.close()
        ledger.close()
    assert seen


def test_of_approval_rejection_and_expiry_at_once_one_wins(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        ledger, key = begun(tmp_path / f"{number}.sqlite")
        stale = [open_sqlite(tmp_path / f"{number}.sqlite", system_ids()) for _ in range(3)]

        def move(one: Ledger, state: ProposalState, key: str = key) -> Callable[[], None]:
            with one.view() as view:
                read = view.get(Proposal, key)

            def act() -> None:
                with one.transaction(now=NOW, actor="someone") as tx:
                    tx.move(read, state, why="a race")

            return act

        states = (ProposalState.WATCHING, ProposalState.REJECTED, ProposalState.EXPIRED)
        said = together(*(move(one, state) for one, state in zip(stale, states, strict=True)))
        with ledger.view() as view:
            found = view.get(Proposal, key)
            rows = list(view.audit_rows())
        assert said.count("done") == 1, said
        assert found.state is states[said.index("done")]
        assert isinstance(verify_chain(rows), Passed)
        for one in (*stale, ledger):
            one.close()


WATCHED = """
import sys
opened = []
sys.addaudithook(lambda name, args: opened.append(str(args[0])) if name == "open" and args else None)
sys.path.insert(0, sys.argv[2])
sys.path.insert(0, sys.argv[3])
from pathlib import Path
from test_release_races import NOW, begun
from prx.domain.ids import system_ids
from prx.ledger import open_sqlite
ledger, key = begun(Path(sys.argv[1]))
opened.clear()
other = open_sqlite(Path(sys.argv[1]), system_ids())
for one in (ledger, other):
    with one.transaction(now=NOW, actor="engine") as tx:
        tx.audit("note", "x", {})
    with one.view() as view:
        view.pointer("default")
ledger.close()
other.close()
print([name for name in opened if ".sqlite" in name])
"""


def test_nothing_opens_the_ledgers_file_but_sqlite(tmp_path: Path) -> None:
    """Once it is there: a plain open and close in the same process would drop SQLite's locks."""
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "acceptance")]
    command = [sys.executable, "-c", WATCHED, str(tmp_path / "ledger.sqlite"), *folders]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]"
