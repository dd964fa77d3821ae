"""The app's own text: what comes back is served at once and becomes a version; a rollout does not flap."""

from datetime import timedelta

from arranged import AGENT, PROMPT, Arranged

from prx.demo.world import in_process, world_named
from prx.demo.world.bank import PROMPT as BANK_PROMPT
from prx.domain.changes import PromptPatch, ReplaceAll
from prx.domain.codec import content_hash
from prx.domain.layers import Layer
from prx.domain.proposals import Proposal
from prx.domain.records import PromptSeen
from prx.domain.serving import Serving
from prx.domain.versions import PromptSet, Version, VersionSource
from prx.engine.rebasing import TRIGGER
from prx.ledger.serving import serving
from prx.release.applied import current
from prx.release.promote import new_version
from prx.release.rollback import execute_rollback, plan_rollback
from prx.settings import Settings

SECOND = PROMPT + "second\n"
FIRST = "You help with parcels.\nBe brief.\nAsk for the number.\n"
BROKEN = BANK_PROMPT.replace("request_refund:", "refunds-team:").replace("change_pin:", "pins:")


def sent(arranged: Arranged, *texts: str, minutes: int = 15, times: int = 1) -> None:
    """The app's processes send these texts, every so many minutes, and the engine hears of it."""
    for _ in range(times):
        arranged.now += timedelta(minutes=minutes)
        for text in texts:
            key = f"{content_hash(text)}/{arranged.now}"
            arranged.write(
                [PromptSeen(record_id=key, at=arranged.now, agent=AGENT, name="support", text=text)]
            )
        arranged.engine.score(arranged.now)


def labels(arranged: Arranged) -> list[str]:
    with arranged.context.ledger.view() as view:
        return [one.label for one in view.find(Version, agent=AGENT)]


def served(arranged: Arranged) -> Serving:
    with arranged.context.ledger.view() as view:
        return serving(view, AGENT)


def test_an_earlier_text_that_alone_is_sent_for_an_hour_becomes_the_version_again() -> None:
    arranged = Arranged.new(Settings())
    sent(arranged, SECOND)
    sent(arranged, PROMPT, times=4)
    assert labels(arranged) == ["v1.0", "v1.1"]
    sent(arranged, PROMPT)
    assert labels(arranged) == ["v1.0", "v1.1", "v1.2"]
    now = served(arranged)
    assert now.prompts["support"] == PROMPT
    assert now.baselines == {"support": (content_hash(PROMPT),)}
    assert now.earlier == {"support": (content_hash(SECOND),)}


def test_old_and_new_processes_side_by_side_make_one_version_whatever_the_order() -> None:
    arranged = Arranged.new(Settings())
    sent(arranged, PROMPT, SECOND, PROMPT, times=40)
    sent(arranged, SECOND, PROMPT, times=40)
    assert labels(arranged) == ["v1.0", "v1.1"]
    assert served(arranged).prompts["support"] == SECOND


def test_after_a_rollback_of_the_apps_text_the_earlier_champion_stands_for_both_texts() -> None:
    arranged = Arranged.new(Settings())
    sent(arranged, SECOND)
    with arranged.context.ledger.transaction(now=arranged.now, actor="person:test") as tx:
        execute_rollback(tx, plan_rollback(tx, AGENT, target="v1.0"), why="broken")
    sent(arranged, SECOND, PROMPT, times=8)
    assert labels(arranged) == ["v1.0", "v1.1"]
    now = served(arranged)
    assert now.prompts["support"] == PROMPT
    assert now.baselines == {"support": (content_hash(PROMPT), content_hash(SECOND))}
    assert now.earlier == {}


def test_a_repair_is_served_from_its_first_session_on_and_becomes_a_version() -> None:
    running = in_process(world_named("improvable"), seed=3)
    running.run(1.0)
    running.desk.prompt = BROKEN
    running.run(1.5)
    with running.ledger.view() as view:
        assert serving(view, AGENT).prompts["router"] == BROKEN
    running.desk.prompt = BANK_PROMPT
    with running.desk.evolution.session() as session:
        assert "refunds-team" not in session.prompt("router", default=BANK_PROMPT)
    running.run(2.0)
    with running.ledger.view() as view:
        assert serving(view, AGENT).prompts["router"] == BANK_PROMPT
    assert running.true_fitness() == running.true_start()


def promoted(arranged: Arranged, text: str) -> None:
    """A version with an edited text of the prompt, as an experiment would leave it."""
    with arranged.context.ledger.transaction(now=arranged.now, actor="test") as tx:
        served = current(tx, AGENT)
        part = tx.part(served.manifest.prompt)
        assert isinstance(part, PromptSet)
        texts = PromptSet(texts={**part.texts, "support": text})
        new_version(
            tx,
            AGENT,
            Layer.PROMPT,
            texts,
            source=VersionSource.ENGINE,
            note="won",
            baseline={},
            own=served.own,
        )


def rebased(arranged: Arranged) -> list[Proposal]:
    with arranged.context.ledger.view() as view:
        return [one for one in view.find(Proposal, agent=AGENT) if one.trigger == TRIGGER]


def test_edits_that_survive_a_change_by_the_app_become_one_proposal_on_its_new_text() -> None:
    arranged = Arranged.new(Settings())
    sent(arranged, FIRST)
    promoted(arranged, FIRST.replace("Be brief.", "Be brief. Say what happens next."))
    sent(arranged, FIRST + "Never promise a refund.\n", times=3)
    assert served(arranged).prompts["support"] == FIRST + "Never promise a refund.\n"
    (proposal,) = rebased(arranged)
    assert isinstance(proposal.change, PromptPatch)
    (whole,) = proposal.change.ops
    assert isinstance(whole, ReplaceAll)
    assert whole.text == FIRST.replace("Be brief.", "Be brief. Say what happens next.") + (
        "Never promise a refund.\n"
    )


def test_edits_of_lines_that_the_app_changed_itself_are_not_offered_again() -> None:
    arranged = Arranged.new(Settings())
    sent(arranged, FIRST)
    promoted(arranged, FIRST.replace("Be brief.", "Be brief. Say what happens next."))
    sent(arranged, FIRST.replace("Be brief.", "Be kind."))
    assert rebased(arranged) == []


def test_an_unedited_prompt_that_the_app_changes_makes_no_proposal() -> None:
    arranged = Arranged.new(Settings())
    sent(arranged, FIRST)
    sent(arranged, FIRST + "Never promise a refund.\n")
    assert rebased(arranged) == []
