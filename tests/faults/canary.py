"""An installation in which one user's words have gone everywhere they can go."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from prx.domain.changes import AddExample, MemoryAdd, PromptPatch
from prx.domain.codec import encode
from prx.domain.decisions import Decision
from prx.domain.events import Event, EventName, Incident
from prx.domain.experiments import Experiment, ExperimentStatus, Variant
from prx.domain.findings import Finding, FindingKind
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal
from prx.domain.records import (
    Feedback,
    Interaction,
    MemoryWritten,
    Message,
    PromptSeen,
    Recall,
    RecallLogged,
    Record,
    SessionStart,
    ToolCall,
    UnitSource,
)
from prx.domain.versions import MemoryState, PromptSet, VersionSource
from prx.ledger.port import Transaction
from prx.release.applied import current
from prx.release.promote import new_version
from prx.spool.rules import SpoolRules
from prx.spool.writer import SpoolWriter
from prx.wiring.app import App, open_app
from prx.wiring.paths import spool_folder

NOW = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
USER, TENANT, OTHER = "zebulon-u7731", "acme", "bob"
TOKEN = "quark-9931-xz"
SENTENCE = "my grandmother hid the silver spoon under the third floorboard"
CJK = "我奶奶把银勺子藏在第三块地板下面"
SAID = f"Please note {TOKEN}: {SENTENCE}. {CJK}"
CANARIES = (USER, TOKEN, "silver spoon under", "银勺子藏在第三块地板", "zs-1", "zs-2", "ref-zeb")
PROMPT = "You help customers.\nBe brief.\n"
CONFIG = '[self_evolution]\nenabled = true\n[self_evolution.decision_log]\nstorage = "file"\n'


@dataclass(frozen=True)
class Place:
    """Where the installation is, and the environment that opens it."""

    home: Path
    env: Mapping[str, str]

    def open(self, now: datetime = NOW) -> App:
        return open_app(home=self.home, env=self.env, now=lambda: now)


def session(key: str, user: str, text: str, at: datetime) -> list[Record]:
    """One session of a user in which everything that can hold text does."""
    return [
        SessionStart(
            record_id=f"{key}-start", at=at, session_id=key, user=user, tenant=TENANT, unit=user,
            unit_source=UnitSource.USER, ref=f"ref-{user[:3]}-{key}",
        ),
        Interaction(
            record_id=f"{key}-call", at=at + timedelta(seconds=1), session_id=key, model="m",
            messages=(Message(role="system", content=PROMPT), Message(role="user", content=text)),
            response=f"You said: {text}", ref=f"ref-{user[:3]}-{key}",
            tool_calls=(ToolCall(name="note", arguments=text, result=text),),
            recalls=(Recall(memory_id=f"{key}-memory", score=0.9),), prompt_values={"system": {"who": text}},
        ),
        MemoryWritten(
            record_id=f"{key}-memory", at=at, session_id=key, text=text, user=user, tenant=TENANT, shared=True
        ),
        RecallLogged(
            record_id=f"{key}-asked", at=at, session_id=key, query=text,
            found=(Recall(memory_id=f"{key}-memory", score=0.9),),
        ),
        Feedback(
            record_id=f"{key}-correction", at=at, target_kind="interaction", target=f"{key}-call",
            name="correction", value=text,
        ),
        Feedback(
            record_id=f"{key}-note", at=at, target_kind="ref", target=f"ref-{user[:3]}-{key}", name="note",
            value=text,
        ),
    ]  # fmt: skip


def theirs(key: str, *, at: datetime = NOW - timedelta(days=3)) -> list[Record]:
    return session(key, USER, SAID, at)


def others() -> list[Record]:
    words = "where is the parcel that I ordered for my sister last week"
    return [
        one for n in range(3) for one in session(f"bob-{n}", f"{OTHER}{n}", words, NOW - timedelta(days=4))
    ]


def spool(home: Path, records: list[Record]) -> None:
    writer = SpoolWriter(spool_folder(home), now=lambda: NOW, rules=SpoolRules())
    writer.append(tuple(records))
    writer.close()


def plant(place: Place) -> None:
    """Fill the installation, and copy the user's words into every kind of record of the ledger."""
    place.home.mkdir(parents=True)
    (place.home / "prx.toml").write_text(CONFIG)
    offered = PromptSeen(
        record_id="p1", at=NOW - timedelta(days=9), agent="default", name="system", text=PROMPT
    )
    spool(place.home, [offered, *others(), *theirs("zs-1"), *theirs("zs-2")])
    app = place.open()
    app.advance()
    with app.ledger.transaction(now=NOW, actor="engine") as tx:
        _copy(tx)
    app.close()
    prompts = place.home / "prompts"
    prompts.mkdir()
    learned = [{"agent": "default", "name": "n", "text": f"You serve. {SAID}"}]
    (prompts / "learned.json").write_bytes(
        encode([*learned, {"agent": "default", "name": "k", "text": PROMPT}])
    )
    (place.home / "ledger.sqlite.schema-1").write_text(SAID)


def _copy(tx: Transaction) -> None:
    example = f"Example:\nUser: {SAID}\nAssistant: Noted.\n"
    for number, text in enumerate((f"{PROMPT}{example}", f"{PROMPT}Be kind.\n{example}")):
        made = PromptSet(texts={"system": text})
        new_version(
            tx, "default", Layer.PROMPT, made, source=VersionSource.ENGINE, note=f"example {number}: {SAID}"
        )
    ops = (
        MemoryAdd(memory_id="sum-1", text=f"A customer: {SENTENCE}", derived_from=("zs-1-memory",)),
        MemoryAdd(memory_id="sum-2", text="One hid something.", derived_from=("sum-1",)),
        MemoryAdd(memory_id="sum-3", text="Parcels are late.", derived_from=("bob-0-memory",)),
    )
    state = MemoryState(operations=tuple(encode(op).decode() for op in ops))
    new_version(tx, "default", Layer.MEMORY, state, source=VersionSource.ENGINE, note="summaries")
    change = PromptPatch(prompt="system", ops=(AddExample(user=SAID, answer="Noted."),))
    base = current(tx, "default").manifest
    treated = tx.put_part(PromptSet(texts={"system": f"{PROMPT}{example}{example}"}))
    common: dict[str, Any] = {"agent": "default", "layer": Layer.PROMPT}
    proposal = Proposal(
        **common, proposal_id="prop", change=change, description=f"add {SENTENCE}", rationale=SAID,
        trigger="t", author="engine", base=base.prompt, treated=treated, fingerprint="f", risk=0.1,
        created_at=NOW, state_since=NOW, expires_at=NOW + timedelta(days=30), decision_id="dec",
        cycle_id="c", evidence=("zs-1", "bob-0"), work={"inputs": [SAID]},
    )  # fmt: skip
    tx.put(proposal)
    tx.put(
        Decision(
            **common, decision_id="dec", cycle_id="c", timestamp=NOW, proposal={"description": SAID},
            rationale=SENTENCE, data_points=1, proposal_id="prop",
        )
    )  # fmt: skip
    tx.put(
        Finding(
            **common, finding_id="find", kind=FindingKind.MEMORY_GAP, fingerprint="f", severity=3,
            first_seen=NOW, last_seen=NOW, summary=f"users say {SENTENCE}", recommendation="r",
            evidence=("zs-1", "zs-1-call", "bob-1"),
        )
    )  # fmt: skip
    tx.put(
        Incident(
            **common, incident_id="inc", at=NOW, detector="breaker", summary="s", proposal_id=None,
            version=None, restored=None, numbers={"failures": 3.0}, evidence=("zs-2", "bob-2"),
        )
    )  # fmt: skip
    arms = [Variant(name=name, description=SAID, manifest=base) for name in ("control", "treatment")]
    tx.put(
        Experiment(
            experiment_id="exp", decision_id="dec", layer=Layer.PROMPT, status=ExperimentStatus.RUNNING,
            created_at=NOW, control=arms[0], proposal_id=None,
            treatment=msgspec.structs.replace(arms[1], manifest=base.with_part(Layer.PROMPT, treated)),
        )
    )  # fmt: skip
    tx.emit(
        Event(event_id="e", at=NOW, agent="default", name=EventName.ALERT, summary=SAID, details={"x": SAID})
    )
    tx.audit("note", "prop", {"why": SAID})
    tx.audit("note", "prop", {"why": "nothing of theirs"})


def holding(home: Path, extra: bytes = b"") -> list[str]:
    """Every place under the folder, and `extra`, that holds a canary."""
    found = []
    for path in sorted(one for one in home.rglob("*") if one.is_file()):
        data = path.read_bytes()
        found += [f"{path.relative_to(home)}: {canary}" for canary in CANARIES if canary.encode() in data]
    return found + [f"dump: {canary}" for canary in CANARIES if canary.encode() in extra]
