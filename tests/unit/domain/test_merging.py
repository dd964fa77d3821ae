"""Two edits of one text: both stay, or the merge says that it cannot."""

import pytest

from prx.domain.merging import merged

BASE = "a\nb\nc\nd\n"


@pytest.mark.parametrize(
    ("mine", "theirs", "both"),
    [
        ("a\nB\nc\nd\n", "a\nb\nc\nD\n", "a\nB\nc\nD\n"),
        ("a\nb\nc\nd\ne\n", "A\nb\nc\nd\n", "A\nb\nc\nd\ne\n"),
        ("a\nc\nd\n", "a\nb\nc\nD\n", "a\nc\nD\n"),
        ("x\na\nb\nc\nd\n", "a\nb\nc\nd\n", "x\na\nb\nc\nd\n"),
        (BASE, "a\nb\n", "a\nb\n"),
        ("a\nB\nc\nd\n", "a\nB\nc\nd\n", "a\nB\nc\nd\n"),
        ("a\nB\nc\nd\n", "a\nX\nc\nd\n", None),
        ("a\nb\nc\nd\ne\n", "a\nb\nc\nd\nf\n", None),
        ("a\nd\n", "a\nb\nX\nd\n", None),
    ],
)
def test_edits_of_different_lines_are_both_kept_and_of_the_same_line_neither(
    mine: str, theirs: str, both: str | None
) -> None:
    assert merged(BASE, mine, theirs) == both
