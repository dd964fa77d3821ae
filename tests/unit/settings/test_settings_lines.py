"""Finding the line of a key."""

import tomllib
from typing import Any

import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from prx.settings.lines import find_lines

NAMES = st.text("abcdefgh_-0 .'#=[", min_size=1, max_size=6)
VALUES: Any = st.one_of(
    st.integers(-5, 5),
    st.booleans(),
    st.text("ab\"'#[]{}=\n\\", max_size=12),
    st.lists(st.text('ab"#]', max_size=4), max_size=3),
)
TABLES = st.dictionaries(NAMES, st.one_of(VALUES, st.dictionaries(NAMES, VALUES, max_size=3)), max_size=4)


def test_keys_headers_lists_and_long_texts_have_their_own_line() -> None:
    text = '\n'.join(
        [
            '"a.b" = 1  # x = 2',
            "c.d = [",
            "  'x = 1', # ]",
            "]",
            't = """',
            "e = 1",
            '"""',
            "[[f.g]] # ]]",
            "h = 1",
            "[[f.g]]",
            "h = 2",
            "[f.g.i]",
            "j = '''k''' # '",
            "l = 1",
        ]
    )  # fmt: skip
    tomllib.loads(text)
    found = find_lines(text)
    assert found.of(("a.b",)) == 1
    assert found.of(("c", "d")) == 2
    assert found.of(("e",)) is None
    assert found.of(("f", "g", 0, "h")) == 9
    assert found.of(("f", "g", 1, "h")) == 11
    assert found.of(("f", "g", 1, "i", "j")) == 13
    assert found.of(("f", "g", 1, "i", "l")) == 14
    assert found.of(("f", "g", 1, "missing")) == 10


@given(TABLES)
def test_the_line_of_every_plain_key_holds_that_key(tables: dict[str, Any]) -> None:
    text = tomlkit.dumps(tables)
    found, rows = find_lines(text), text.splitlines()
    for name, value in tables.items():
        inner = (
            [((name,), value)] if not isinstance(value, dict) else [((name, k), v) for k, v in value.items()]
        )
        for path, _ in inner:
            line = found.of(path)
            assert line is not None
            written = rows[line - 1]
            assert tomlkit.key(path[-1]).as_string() in written
