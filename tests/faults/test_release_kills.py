"""Rollback, restore, approval and rejection killed before a writing call, and a promotion that power loss
cuts off; needs strace."""

import random
import re
import subprocess
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import apsw
import pytest
from arranged import AGENT, PROOFS, START

from prx.domain.answers import Passed
from prx.domain.changes import PromptPatch, ReplaceAll
from prx.domain.ids import system_ids
from prx.domain.layers import Layer
from prx.domain.proposals import ProofStep, Proposal, ProposalState
from prx.domain.versions import PromptSet, Strategy, Version, VersionSource
from prx.engine.filing import Filing, file_proposal
from prx.ledger import open_sqlite, verify_chain
from prx.release.promote import initial_version, new_version

pytestmark = pytest.mark.full

CALLS = ("pwrite64", "fdatasync", "fsync", "ftruncate", "unlink", "rename")
WON = ProofStep(name="experiment", answer="pass", why="arranged", at=START, evidence="live")
ACT = """
import sys
from datetime import datetime, timedelta
from pathlib import Path
from prx.domain.ids import system_ids
from prx.engine.context import Context, Models
from prx.engine.engine import Engine
from prx.ledger import open_sqlite
from prx.records.memory import open_memory
from prx.settings import Settings
from prx.views.fitness import rules_from
ids, given = system_ids(), Settings()
ledger = open_sqlite(Path(sys.argv[1]), ids)
context = Context(ledger=ledger, records=open_memory(), settings=given, fitness=rules_from(given), ids=ids,
                  models=Models())
engine, now = Engine(context), datetime.fromisoformat(sys.argv[2])
from prx.domain.layers import Layer
exec(sys.argv[3])
print("done", flush=True)
"""
ACTS = {
    "rollback": "engine.rollback('default', actor='person:ann', now=now, target='v1.0')",
    "rollback of a layer": "engine.rollback('default', actor='person:ann', now=now, target='v1.0', "
    "layer=Layer.PROMPT)",
    "restore of a snapshot": "engine.rollback('default', actor='person:ann', now=now, snapshot='SNAPSHOT')",
    "approval": "engine.approve('PROPOSAL', actor='person:ann', now=now)",
    "rejection": "engine.reject('PROPOSAL', actor='person:ann', why='no', now=now)",
}


@dataclass(frozen=True)
class House:
    """A ledger with three versions, the last of which serves, and a proposal that waits for a person."""

    path: Path
    proposal: str
    snapshot: str

    def act(self, name: str) -> str:
        return ACTS[name].replace("PROPOSAL", self.proposal).replace("SNAPSHOT", self.snapshot)


@pytest.fixture
def house(tmp_path: Path) -> House:
    path = tmp_path / "ledger.sqlite"
    ledger = open_sqlite(path, system_ids())
    with ledger.transaction(now=START, actor="engine") as tx:
        first = initial_version(
            tx, AGENT, prompts=PromptSet(texts={"support": "Help."}), source=VersionSource.CLIENT, note=""
        )
        more = PromptSet(texts={"support": "Help well. " * 200})
        new_version(tx, AGENT, Layer.PROMPT, more, source=VersionSource.OPERATOR, note="")
        faster = Strategy(automix_threshold=0.9)
        new_version(tx, AGENT, Layer.STRATEGY, faster, source=VersionSource.OPERATOR, note="")
        edit = PromptPatch(prompt="support", ops=(ReplaceAll(text="Help best."),))
        filing = Filing(AGENT, edit, "a change", "a reason", "a finding", "engine:rule", "f", 0.3, 500)
        proposal = file_proposal(tx, filing)
        for state in ("gated", "shadowing", "judged", "awaiting_approval"):
            proposal = tx.move(proposal, ProposalState(state), why="arranged", proofs=(*PROOFS, WON))
    ledger.close()
    return House(path, proposal.proposal_id, first.snapshot_id)


def run(path: Path, act: str, *tracing: str) -> "subprocess.CompletedProcess[str]":
    at = (START + timedelta(hours=1)).isoformat()
    command = [*tracing, sys.executable, "-B", "-c", ACT, str(path), at, act]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def points(log: str, rng: random.Random) -> list[tuple[str, int]]:
    """Every call but the many page writes, of which some."""
    made = re.findall(r"^\d+ +(\w+)\(", log, re.MULTILINE)
    found = [(call, n) for call in CALLS for n in range(1, made.count(call) + 1)]
    pages = [point for point in found if point[0] == "pwrite64"]
    return [point for point in found if point[0] != "pwrite64"] + rng.sample(pages, min(4, len(pages)))


def state_of(path: Path) -> tuple[object, ...]:
    """What a person would call the state, after every invariant was checked."""
    connection = apsw.Connection(str(path))
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()
    ledger = open_sqlite(path, system_ids())
    with ledger.view() as view:
        rows = list(view.audit_rows())
        assert isinstance(verify_chain(rows), Passed)
        versions = view.find(Version, agent=AGENT)
        for version in versions:
            for layer in Layer:
                view.part(version.manifest.part(layer))
        pointer = view.pointer(AGENT)
        assert pointer is not None
        kinds = [row.kind for row in rows]
        assert kinds.count("version.added") == len(versions) == len({one.label for one in versions})
        assert kinds.count("pointer.moved") == pointer.revision
        (proposal,) = view.find(Proposal, agent=AGENT)
        served = view.version(AGENT, pointer.label).manifest
    ledger.close()
    return pointer.label, served, proposal.state, len(versions), tuple(sorted(one.status for one in versions))


def copy_of(house: House, name: str) -> Path:
    folder = house.path.parent / name
    folder.mkdir()
    target = folder / house.path.name
    target.write_bytes(house.path.read_bytes())
    return target


@pytest.mark.parametrize("act", ACTS)
def test_an_act_killed_before_a_writing_call_is_wholly_done_or_not_at_all_and_can_be_done_again(
    house: House, act: str
) -> None:
    code, rng, log = house.act(act), random.Random(7), house.path.parent / "calls.txt"
    whole = copy_of(house, "whole")
    tracing = ("strace", "-f", "-qq", "-o", str(log), "-e", f"trace={','.join(CALLS)}")
    assert run(whole, code, *tracing).stdout == "done\n"
    old, new = state_of(copy_of(house, "old")), state_of(whole)
    assert old != new
    for number, (call, when) in enumerate(points(log.read_text(), rng)):
        path = copy_of(house, f"run{number}")
        inject = ("-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={when}")
        done = run(path, code, "strace", "-f", "-qq", "-o", "/dev/null", *inject)
        found = state_of(path)
        assert found in ((new,) if done.stdout == "done\n" else (old, new)), (act, call, when)
        if found == old:
            later = code.replace("now=now", "now=now + timedelta(hours=1)")
            assert run(path, later).stdout == "done\n"
            assert state_of(path) == new


LINE = re.compile(r"^\d+ +(\w+)\(\d+<([^>]*)>(?:, (.*))?\) += ")


def recorded(log: str, path: Path) -> list[tuple[str, str, int, bytes]]:
    """(kind, file, offset or size, bytes) of everything done to the store's files, and `said` at the end."""
    found = []
    for line in log.splitlines():
        if (parsed := LINE.match(line)) is None:
            continue
        call, name, rest = parsed[1], unhex(parsed[2]).decode(), parsed[3] or ""
        if call == "write" and unhex(rest.split('"')[1]).startswith(b"done"):
            found.append(("said", "", 0, b""))
        elif not name.startswith(str(path)):
            continue
        elif call == "pwrite64":
            found.append(("write", name, int(rest.rsplit(", ", 1)[1]), unhex(rest.split('"')[1])))
        elif call in ("fsync", "fdatasync"):
            found.append(("sync", name, 0, b""))
        elif call == "ftruncate":
            found.append(("cut", name, int(rest), b""))
    return found


def unhex(text: str) -> bytes:
    """What strace -xx wrote."""
    return bytes.fromhex(text.replace("\\x", ""))


def after_power_loss(
    done: list[tuple[str, str, int, bytes]], rng: random.Random, files: dict[str, bytearray]
) -> None:
    """What a disk holds: all that was synced, and of the rest a part, torn, or nothing."""
    synced = {one[1]: number for number, one in enumerate(done) if one[0] == "sync"}
    for number, (kind, name, at, data) in enumerate(done):
        if kind not in ("write", "cut"):
            continue
        fate = 0.0 if number < synced.get(name, -1) else rng.random()
        if fate >= 0.6:
            continue
        held = files.setdefault(name, bytearray())
        if kind == "cut":
            del held[at:]
            continue
        kept = data if fate < 0.4 else data[: rng.randrange(len(data) // 512 + 1) * 512]
        held.extend(bytes(max(0, at + len(kept) - len(held))))
        held[at : at + len(kept)] = kept


def test_power_loss_at_any_moment_tears_nothing_and_takes_nothing_acknowledged(house: House) -> None:
    """300 seeds: 40 % of what was not synced is kept, 20 % torn at a sector, 40 % dropped."""
    code, log = house.act("approval"), house.path.parent / "calls.txt"
    old, whole = state_of(copy_of(house, "old")), copy_of(house, "whole")
    tracing = ("strace", "-f", "-qq", "-xx", "-y", "-s", "5000000", "-o", str(log))
    calls = "trace=pwrite64,write,fdatasync,fsync,ftruncate"
    assert run(whole, code, *tracing, "-e", calls).stdout == "done\n"
    done = recorded(log.read_text(), whole)
    said = next(n for n, one in enumerate(done) if one[0] == "said")
    new, lost, early = state_of(whole), 0, 0
    assert sum(one[0] == "write" for one in done) > 5
    for seed in range(300):
        rng = random.Random(seed)
        cut = rng.randrange(len(done) + 1)
        files = {str(whole): bytearray(house.path.read_bytes())}
        after_power_loss(done[:cut], rng, files)
        target = house.path.parent / f"seed{seed}"
        target.mkdir()
        for name, data in files.items():
            if not name.endswith("-shm"):
                (target / Path(name).name).write_bytes(data)
        found = state_of(target / whole.name)
        assert found in ((new,) if cut > said else (old, new)), (seed, cut)
        lost, early = lost + (found == old), early + (found == new)
    assert lost > 20
    assert early > 20
