import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prx.domain.records import Feedback, Interaction
from prx.ingest.sniff import DIALECTS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "import.md"


def test_the_example_of_the_page_is_imported_without_a_problem(
    tmp_path: Path, imported: Callable[..., Any]
) -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    path = tmp_path / "example.jsonl"
    path.write_text(example)
    got = imported(path)
    assert (got.result.sessions, got.result.malformed) == (2, 0)
    assert (len(got.store.of(Interaction)), len(got.store.of(Feedback))) == (2, 3)


def test_the_page_lists_every_dialect_and_no_other() -> None:
    assert re.findall(r"^\| `([a-z-]+)` \| .* \| .* \| .* \| .* \|", PAGE.read_text(), re.MULTILINE) == [
        d.name for d in DIALECTS
    ]
