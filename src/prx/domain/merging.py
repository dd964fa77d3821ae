"""Two edits of one text at once: both are kept where they touch different lines."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

Edit = tuple[int, int, list[str]]


def merged(base: str, mine: str, theirs: str) -> str | None:
    """`theirs` with the lines changed that `mine` changes in `base`; None where both change the same place.

    Lines are compared whole; equal edits of both count once.
    """
    old = base.splitlines(keepends=True)
    ours, other = list(_edits(old, mine)), list(_edits(old, theirs))
    todo = [edit for edit in ours if edit not in other]
    if any(_touch(one, two) for one in todo for two in other):
        return None
    result, place = [], 0
    for start, end, lines in sorted([*todo, *other], key=lambda edit: edit[:2]):
        result += [*old[place:start], *lines]
        place = end
    return "".join([*result, *old[place:]])


def _edits(old: Sequence[str], text: str) -> Iterator[Edit]:
    new = text.splitlines(keepends=True)
    for tag, start, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield start, end, new[first:last]


def _touch(one: Edit, two: Edit) -> bool:
    """Whether two edits share a line of the old text, or add lines at the same place."""
    if one[0] == one[1] and two[0] == two[1]:
        return one[0] == two[0]
    return one[0] < two[1] and two[0] < one[1]
