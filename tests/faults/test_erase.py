"""After an erasure nothing of the user is anywhere, nothing brings it back, and the proof is there."""

import json
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from canary import CANARIES, NOW, PROMPT, SAID, TENANT, USER, Place, holding, plant, spool, theirs

from prx.cli.call import Outside
from prx.cli.program import main, wired
from prx.domain.erasure import Subject
from prx.domain.errors import Conflict, InvalidInput
from prx.domain.experiments import Experiment
from prx.domain.findings import Finding
from prx.domain.proposals import Proposal
from prx.domain.records import Feedback, Interaction, Message, SessionStart
from prx.domain.versions import PromptSet, Version, VersionSource, VersionStatus
from prx.gateway.prompts.store import PromptFiles
from prx.release.applied import current
from prx.spool.ship import refill
from prx.views.audit import verify
from prx.wiring.app import App
from prx.wiring.erase import ErasureReport
from prx.wiring.paths import spool_folder

STORES = ["sqlite", pytest.param("postgres", marks=pytest.mark.full)]
ALICE = Subject(user=USER)


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    env = {}
    if request.param == "postgres":
        env["PRX__STORE__URL"] = request.getfixturevalue("postgres_url")
    made = Place(tmp_path / "home", env)
    plant(made)
    return made


def dump(place: Place) -> bytes:
    url = place.env.get("PRX__STORE__URL")
    if not url:
        return b""
    return subprocess.run(["pg_dump", "--inserts", url], capture_output=True, check=True).stdout


def erase(app: App, subject: Subject = ALICE, *, dry_run: bool = False) -> ErasureReport:
    files = PromptFiles(app.home)
    return app.erase(
        subject, actor="person:dpo", dry_run=dry_run, forget_prompts=lambda h, r: files.forget(h, rehearse=r)
    )


def erased(place: Place, subject: Subject = ALICE) -> ErasureReport:
    app = place.open()
    app.ship()
    done = erase(app, subject)
    app.close()
    return done


def test_no_file_and_no_dump_holds_anything_of_an_erased_user(place: Place) -> None:
    before = holding(place.home, dump(place))
    assert len({one.split(": ")[1] for one in before}) == len(CANARIES)
    done = erased(place)
    assert holding(place.home, dump(place)) == []
    assert (done.sessions, done.scores, done.prompts) == (2, 2, 1)
    assert (done.records, done.spooled) == (12, 12)
    assert done.left == ()


def test_the_others_keep_everything(place: Place) -> None:
    app = place.open()
    others = [trace for trace in app.records.traces() if trace.start.user != USER]
    counts = app.records.counts()
    erase(app)
    assert list(app.records.traces()) == others
    left = app.records.counts()
    assert (left["sessions"], counts["sessions"]) == (3, 5)
    assert (left["interactions"], left["feedback"], left["scores"]) == (3, 6, 3)
    assert sorted(one.session_id for one in app.records.scores()) == ["bob-0", "bob-1", "bob-2"]
    memory = app.engine.context.memory
    assert memory is not None
    assert {one.record_id for one in memory.sessions() if one.record_id} == {
        f"bob-{n}-memory" for n in range(3)
    }
    assert [one.name for one in PromptFiles(app.home).learned()] == ["k"]
    app.close()


def test_versions_with_the_text_are_sealed_and_a_clean_one_serves(place: Place) -> None:
    app = place.open()
    done = erase(app)
    with app.ledger.view() as view:
        versions = {one.label: one for one in view.find(Version)}
        served = current(view, "default")
        part = view.part(served.manifest.prompt)
        finding, proposal = view.get(Finding, "find"), view.get(Proposal, "prop")
        state, experiment = view.part(served.manifest.memory), view.get(Experiment, "exp")
        assert verify(view).whole, verify(view).why
    sealed = {"v1.2", "v1.3", "v1.4", "v1.5"}
    assert set(done.ledger.sealed) == {f"default/{label}" for label in sealed}
    assert {label for label, one in versions.items() if one.status is VersionStatus.SEALED} == sealed
    assert done.ledger.successors == ("default/v1.5", "default/v1.6")
    assert (served.label, served.source) == ("v1.6", VersionSource.ERASURE)
    assert part == PromptSet(texts={"system": f"{PROMPT}Be kind.\n"})
    assert "sum-3" in str(state)
    assert "sum-1" not in str(state)
    assert "sum-2" not in str(state)
    assert finding.evidence == ("[erased]", "[erased]", "bob-1")
    assert (proposal.state, proposal.rationale, experiment.status) == ("cancelled", "[erased]", "cancelled")
    with pytest.raises(InvalidInput, match=r"v1\.2 is sealed: it held text that was erased.*v1\.1"):
        app.engine.rollback("default", target="v1.2", actor="person:me", now=NOW)
    with app.ledger.transaction(now=NOW, actor="person:me") as tx, pytest.raises(Conflict, match="sealed"):
        tx.point("default", "v1.2", expected=tx.pointer("default").revision)  # type: ignore[union-attr]
    with app.ledger.transaction(now=NOW, actor="person:me") as tx, pytest.raises(Conflict, match="stays so"):
        tx.put(msgspec.structs.replace(versions["v1.2"], status=VersionStatus.LIVE))
    back = app.engine.rollback("default", target="v1.0", actor="person:me", now=NOW)
    assert back.restored == "v1.0"
    with app.ledger.view() as view:
        assert view.version("default", "v1.2").status is VersionStatus.SEALED
        assert verify(view).whole
    app.close()


def test_the_proof_names_nobody_and_says_what_was_done(place: Place) -> None:
    done = erased(place)
    app = place.open()
    with app.ledger.view() as view:
        row = next(row for row in view.audit_rows() if row.kind == "erasure.done")
        kept = next(row for row in view.audit_rows() if row.kind == "note" and row.body)
    assert done.proof == f"{row.seq}:{row.hash}"
    told = json.loads(row.body or "")
    assert (told["what"], told["sessions"], told["records"]) == ("user", 2, 12)
    assert row.subject == app.records.erasures.digest(ALICE)
    assert row.actor == "person:dpo"
    assert kept.body == '{"why":"nothing of theirs"}'
    app.close()


def test_a_second_run_changes_nothing_and_says_when_it_was_done(place: Place) -> None:
    erased(place)
    app = place.open(NOW + timedelta(days=1))
    with app.ledger.view() as view:
        before = view.audit_rows()
    again = erase(app)
    assert (again.found, again.before, again.proof) == (False, NOW, None)
    with app.ledger.view() as view:
        assert view.audit_rows() == before
    app.close()


def test_a_dry_run_says_the_same_and_removes_nothing(place: Place) -> None:
    app = place.open()
    with app.ledger.view() as view:
        before = (view.audit_rows(), view.find(Version), view.events())
    counts = app.records.counts()
    rehearsed = erase(app, dry_run=True)
    with app.ledger.view() as view:
        assert (view.audit_rows(), view.find(Version), view.events()) == before
    assert app.records.counts() == counts
    assert app.records.erasures.erasures() == ()
    done = erase(app)
    assert (rehearsed.sessions, rehearsed.records, rehearsed.prompts) == (
        done.sessions,
        done.records,
        done.prompts,
    )
    assert rehearsed.ledger == done.ledger
    app.close()


def test_what_comes_late_from_a_spool_stays_out_and_what_the_user_does_now_is_kept(place: Place) -> None:
    erased(place)
    late = [*theirs("zs-1"), *theirs("zs-9", at=NOW - timedelta(hours=1))]
    late.append(
        Feedback(
            record_id="f9", at=NOW, target_kind="interaction", target="zs-2-call", name="note", value=SAID
        )
    )
    back = theirs("zs-new", at=NOW + timedelta(hours=1))
    app = place.open(NOW + timedelta(hours=2))
    spool(place.home, [*reversed(late), *back])
    app.ship()
    refill(spool_folder(place.home), app.records.append)
    assert app.records.trace("zs-1") is None
    # a session that began before the erasure goes with the next look, whatever of it came first
    app.follow_erasures()
    assert app.records.trace("zs-9") is None
    kept = app.records.trace("zs-new")
    assert kept is not None
    assert kept.start.user == USER
    assert app.records.counts()["sessions"] == 4
    app.close()


def test_another_machine_follows_with_its_own_spool_and_memory(place: Place, tmp_path: Path) -> None:
    other = Place(tmp_path / "other", {**place.env})
    if not place.env:
        pytest.skip("one machine has one SQLite file")
    other.home.mkdir()
    spool(other.home, theirs("zs-3"))
    app = other.open()
    app.advance()
    assert holding(other.home) != []
    erased(place)
    app.advance()
    app.close()
    # the memory file is freed of it at once, its pages by the next erasure there
    assert [one for one in holding(other.home) if one.startswith("spool")] == []


@pytest.mark.parametrize(
    ("subject", "gone"),
    [
        (Subject(session="zs-1"), {"zs-1"}),
        (Subject(user=USER, tenant=TENANT), {"zs-1", "zs-2"}),
        (Subject(user=USER, tenant="else"), set()),
        (Subject(tenant=TENANT), {"zs-1", "zs-2", "bob-0", "bob-1", "bob-2"}),
    ],
)
def test_a_session_and_a_tenant_can_be_erased_too(place: Place, subject: Subject, gone: set[str]) -> None:
    app = place.open()
    before = {trace.start.session_id for trace in app.records.traces()}
    done = erase(app, subject)
    assert done.found is bool(gone)
    assert {trace.start.session_id for trace in app.records.traces()} == before - gone
    app.close()


def test_text_that_the_prompt_had_first_is_not_the_users(tmp_path: Path) -> None:
    place = Place(tmp_path / "home", {})
    plant(place)
    app = place.open()
    quoting = SessionStart(record_id="q", at=NOW - timedelta(days=1), session_id="q-1", user="quoter")
    said = f"Why do you say: {PROMPT}"
    call = Interaction(
        record_id="q-call", at=NOW - timedelta(days=1), session_id="q-1", model="m",
        messages=(Message(role="user", content=said),),
    )  # fmt: skip
    app.records.append([quoting, call])
    done = erase(app, Subject(user="quoter"))
    assert (done.sessions, done.ledger.sealed) == (1, ())
    app.close()


class Crash(Exception):
    pass


class Dying:
    """Something that dies at its n-th verb; everything before was carried out."""

    def __init__(self, inner: Any, left: list[int]) -> None:
        self._inner, self._left = inner, left

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == "erasures" and not callable(found):
            return Dying(found, self._left)

        def verb(*args: Any, **kwargs: Any) -> Any:
            self._left[0] -= 1
            if self._left[0] < 0:
                raise Crash(name)
            return found(*args, **kwargs)

        return verb


def test_wherever_it_is_cut_off_the_next_run_finishes(place: Place) -> None:
    crashes = 0
    for survives in range(3, 200, 4):
        app = place.open()
        left = [survives]
        records, ledger = app.records, app.ledger
        app.records, app.ledger = Dying(records, left), Dying(ledger, left)
        try:
            done = erase(app)
        except Crash:
            crashes += 1
            continue
        finally:
            app.records, app.ledger = records, ledger
            app.close()
        assert done.found
        break
    else:
        raise AssertionError("it never finished")
    assert crashes >= 3
    assert holding(place.home, dump(place)) == []
    app = place.open()
    with app.ledger.view() as view:
        assert verify(view).whole
        assert [row.kind for row in view.audit_rows()].count("erasure.done") == 1
    app.close()


def test_the_command_says_what_it_did(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    outside = Outside(wired, {**place.env, "PRX_HOME": str(place.home)}, lambda: NOW, place.home.parent)
    assert main(["erase"], outside) != 0
    assert "--user" in capsys.readouterr().err
    assert main(["erase", "--user", USER, "--dry-run"], outside) == 0
    said = capsys.readouterr().out
    assert "Would erase" in said
    assert "2 sessions" in said
    assert "default/v1.2" in said
    assert main(["erase", "--user", USER, "--json"], outside) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["sessions"], told["found"], told["left"]) == (2, True, [])
    assert main(["erase", "--user", USER], outside) == 0
    said = capsys.readouterr().out
    assert "nothing of this user is stored" in said
    assert "2026-12-01" in said
    assert main(["evolution", "audit", "verify"], outside) == 0
    capsys.readouterr()
    assert main(["evolution", "rollback", "v1.2", "--yes"], outside) == 1
    assert "sealed" in capsys.readouterr().err
    assert main(["evolution", "versions", "show", "v1.2"], outside) == 0
    assert "sealed" in capsys.readouterr().out
    assert main(["evolution", "versions", "list"], outside) == 0
