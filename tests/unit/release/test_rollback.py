"""Rollback in its five spellings, on a chain of versions that a promotion built."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from prx.domain.decisions import Decision, DecisionOutcome
from prx.domain.errors import InvalidInput, NotFound
from prx.domain.events import Event, EventName
from prx.domain.ids import Ids
from prx.domain.layers import Layer
from prx.domain.versions import PromptSet, Strategy, Version, VersionSource, VersionStatus
from prx.ledger.memory import open_memory
from prx.ledger.port import Ledger
from prx.release.promote import initial_version, new_version
from prx.release.rollback import RollbackResult, execute_rollback, plan_rollback

NOW = datetime(2026, 3, 2, tzinfo=UTC)
AGENT = "default"


@pytest.fixture
def ledger() -> Ledger:
    """v1.0 -> v1.1 prompt -> v1.2 strategy -> v1.3 prompt, which serves."""
    made = open_memory(Ids(random.Random(1)))
    with made.transaction(now=NOW, actor="engine") as tx:
        initial_version(
            tx, AGENT, prompts=PromptSet(texts={"p": "zero"}), source=VersionSource.INITIAL, note="first"
        )
    for layer, part in (
        (Layer.PROMPT, PromptSet(texts={"p": "one"})),
        (Layer.STRATEGY, Strategy(automix_threshold=0.8)),
        (Layer.PROMPT, PromptSet(texts={"p": "three"})),
    ):
        with made.transaction(now=NOW + timedelta(hours=1), actor="engine") as tx:
            new_version(tx, AGENT, layer, part, source=VersionSource.ENGINE, note=f"{layer} change")
    return made


def roll(ledger: Ledger, **spelling: object) -> RollbackResult:
    with ledger.transaction(now=NOW + timedelta(days=1), actor="person:ann") as tx:
        plan = plan_rollback(tx, AGENT, **spelling)  # type: ignore[arg-type]
        return execute_rollback(tx, plan, why="test")


def served(ledger: Ledger) -> tuple[str, str, float]:
    with ledger.view() as view:
        pointer = view.pointer(AGENT)
        assert pointer is not None
        version = view.version(AGENT, pointer.label)
        prompts, strategy = view.part(version.manifest.prompt), view.part(version.manifest.strategy)
        assert isinstance(prompts, PromptSet)
        assert isinstance(strategy, Strategy)
        return pointer.label, prompts.texts["p"], strategy.automix_threshold


def test_alone_it_undoes_the_last_change(ledger: Ledger) -> None:
    assert roll(ledger).restored == "v1.2"
    assert served(ledger) == ("v1.2", "one", 0.8)


def test_again_it_undoes_the_change_before_that(ledger: Ledger) -> None:
    roll(ledger)
    roll(ledger)
    assert served(ledger) == ("v1.1", "one", 0.7)


def test_to_a_version_the_pointer_moves_back_and_no_number_is_made(ledger: Ledger) -> None:
    roll(ledger, target="v1.1")
    assert served(ledger) == ("v1.1", "one", 0.7)
    with ledger.view() as view:
        versions = {v.label: v.status for v in view.find(Version, agent=AGENT)}
    assert versions == {
        "v1.0": VersionStatus.LIVE,
        "v1.1": VersionStatus.LIVE,
        "v1.2": VersionStatus.ROLLED_BACK,
        "v1.3": VersionStatus.ROLLED_BACK,
    }


def test_of_one_layer_it_makes_a_new_version_that_keeps_the_other_layers(ledger: Ledger) -> None:
    result = roll(ledger, layer=Layer.PROMPT, target="v1.0")
    assert result.restored == "v1.4"
    assert served(ledger) == ("v1.4", "zero", 0.8)


def test_of_one_layer_without_a_version_it_undoes_that_layers_last_change(ledger: Ledger) -> None:
    roll(ledger, layer=Layer.STRATEGY)
    assert served(ledger) == ("v1.4", "three", 0.7)


def test_twice_of_one_layer_it_goes_on_backwards_and_never_serves_what_was_undone(ledger: Ledger) -> None:
    roll(ledger, layer=Layer.PROMPT)
    assert served(ledger)[1] == "one"
    roll(ledger, layer=Layer.PROMPT)
    assert served(ledger)[1] == "zero"


def test_alone_after_a_selective_rollback_it_never_serves_what_was_undone(ledger: Ledger) -> None:
    roll(ledger, layer=Layer.PROMPT)
    roll(ledger)
    assert served(ledger)[1] != "three"


def test_by_snapshot_it_is_the_version_that_holds_it(ledger: Ledger) -> None:
    with ledger.view() as view:
        snapshot = view.version(AGENT, "v1.0").snapshot_id
    assert roll(ledger, snapshot=snapshot).restored == "v1.0"
    assert served(ledger) == ("v1.0", "zero", 0.7)


def test_forward_again_to_a_version_that_was_left(ledger: Ledger) -> None:
    roll(ledger, target="v1.0")
    roll(ledger, target="v1.3")
    assert served(ledger) == ("v1.3", "three", 0.8)
    with ledger.view() as view:
        assert view.version(AGENT, "v1.3").status is VersionStatus.LIVE


def test_numbers_are_never_used_again(ledger: Ledger) -> None:
    roll(ledger, target="v1.0")
    with ledger.transaction(now=NOW + timedelta(days=2), actor="engine") as tx:
        made = new_version(
            tx, AGENT, Layer.PROMPT, PromptSet(texts={"p": "new"}), source=VersionSource.ENGINE, note="n"
        )
    assert made.label == "v1.4"
    assert made.parents == ("v1.0",)


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ({"target": "v1.3"}, "serves already"),
        ({"target": "v9.9"}, "v9.9"),
        ({"target": "banana"}, "banana"),
        ({"snapshot": "snap_nothing"}, "snap_nothing"),
        ({"layer": Layer.PROMPT, "target": "v1.3"}, "already as in"),
        ({"layer": Layer.MEMORY}, "nothing to roll back"),
        ({"target": "v1.1", "snapshot": "snap_x"}, "not both"),
    ],
)
def test_a_spelling_that_means_nothing_is_refused_and_changes_nothing(
    ledger: Ledger, spelling: dict[str, object], message: str
) -> None:
    before = served(ledger)
    with pytest.raises((InvalidInput, NotFound), match=message):
        roll(ledger, **spelling)
    assert served(ledger) == before


def test_nothing_is_left_to_undo_at_the_first_version(ledger: Ledger) -> None:
    roll(ledger, target="v1.0")
    with pytest.raises(InvalidInput, match="nothing to roll back"):
        roll(ledger)


def test_a_sealed_version_is_not_restored(ledger: Ledger) -> None:
    with ledger.transaction(now=NOW, actor="engine") as tx:
        tx.put(msgspec.structs.replace(tx.version(AGENT, "v1.0"), status=VersionStatus.SEALED))
    with pytest.raises(InvalidInput, match="sealed"):
        roll(ledger, target="v1.0")


def test_it_writes_a_decision_an_event_and_an_audit_row(ledger: Ledger) -> None:
    result = roll(ledger, target="v1.1")
    with ledger.view() as view:
        (decision,) = view.find(Decision, agent=AGENT)
        events: list[Event] = [event for _, event in view.events()]
        kinds = [row.kind for row in view.audit_rows()]
    assert decision.rollback_id == result.version.snapshot_id
    assert decision.executed
    assert decision.outcome in (None, DecisionOutcome.ROLLED_BACK)
    assert [event.name for event in events] == [EventName.ROLLED_BACK]
    assert "rollback" in kinds


def test_the_preview_says_what_the_rollback_then_does(ledger: Ledger) -> None:
    words: Callable[..., str] = lambda **s: plan_words(ledger, **s)  # noqa: E731
    assert "v1.2 again instead of v1.3" in words()
    assert "prompt (L2) of v1.0" in words(layer=Layer.PROMPT, target="v1.0")


def plan_words(ledger: Ledger, **spelling: object) -> str:
    with ledger.view() as view:
        return plan_rollback(view, AGENT, **spelling).describe()  # type: ignore[arg-type]


def test_a_restored_mix_that_is_left_is_marked_too(ledger: Ledger) -> None:
    roll(ledger, layer=Layer.PROMPT, target="v1.0")
    roll(ledger, target="v1.2")
    with ledger.view() as view:
        assert view.version(AGENT, "v1.4").status is VersionStatus.ROLLED_BACK
        assert view.version(AGENT, "v1.3").status is VersionStatus.ROLLED_BACK
        assert view.version(AGENT, "v1.2").status is VersionStatus.LIVE


def test_what_was_undone_already_is_not_named_again_and_every_layer_is(ledger: Ledger) -> None:
    roll(ledger, layer=Layer.PROMPT)
    assert "v1.3" not in plan_words(ledger, target="v1.0")
    result = roll(ledger, target="v1.0")
    with ledger.view() as view:
        decision = view.find(Decision, agent=AGENT)[-1]
    assert decision.proposal["parameters"]["undone"] == ["v1.2", "v1.1"]
    assert decision.proposal["parameters"]["layers"] == ["prompt", "strategy"]
    assert set(result.layers) == {Layer.PROMPT, Layer.STRATEGY}
