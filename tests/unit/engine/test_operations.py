"""A rollback that is asked for twice under one id happens once."""

import pytest
from arranged import AGENT, Arranged

from prx.domain.errors import Conflict
from prx.domain.layers import Layer
from prx.domain.versions import PromptSet, VersionSource
from prx.release.promote import new_version
from prx.settings import Settings


@pytest.fixture
def arranged() -> Arranged:
    made = Arranged.new(Settings(enabled=True))
    made.propose()
    with made.context.ledger.transaction(now=made.now, actor="test") as tx:
        for text in ("one", "two", "three"):
            part = PromptSet(texts={"support": text})
            new_version(tx, AGENT, Layer.PROMPT, part, source=VersionSource.ENGINE, note=text)
    return made


def serves(arranged: Arranged) -> tuple[str, int]:
    with arranged.context.ledger.view() as view:
        pointer = view.pointer(AGENT)
    assert pointer is not None
    return pointer.label, pointer.revision


def test_the_same_operation_again_gives_the_first_answer_and_changes_nothing(arranged: Arranged) -> None:
    first = arranged.engine.rollback(AGENT, operation="op-1", actor="person:ann", now=arranged.now)
    after = serves(arranged)
    with arranged.context.ledger.view() as view:
        rows = len(view.audit_rows())
    again = arranged.engine.rollback(AGENT, operation="op-1", actor="person:ann", now=arranged.now)
    assert (first.repeated, again.repeated) == (False, True)
    assert (again.restored, again.left, again.layers) == (first.restored, first.left, first.layers)
    assert serves(arranged) == after
    with arranged.context.ledger.view() as view:
        assert len(view.audit_rows()) == rows
    other = arranged.engine.rollback(AGENT, operation="op-2", actor="person:ann", now=arranged.now)
    assert (other.repeated, other.left) == (False, first.restored)


def test_an_id_that_was_used_for_something_else_is_refused(arranged: Arranged) -> None:
    arranged.engine.rollback(AGENT, operation="op-1", actor="person:ann", now=arranged.now)
    after = serves(arranged)
    with pytest.raises(Conflict, match="an id of its own"):
        arranged.engine.rollback(AGENT, target="v1.0", operation="op-1", actor="person:ann", now=arranged.now)
    assert serves(arranged) == after


def test_without_an_id_every_call_undoes_one_more_change(arranged: Arranged) -> None:
    labels = [
        arranged.engine.rollback(AGENT, actor="person:ann", now=arranged.now).restored for _ in range(2)
    ]
    assert labels[0] != labels[1]
