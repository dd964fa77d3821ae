import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import prx.ingest.reader as reader_module
from prx.domain.errors import InvalidInput
from prx.ingest.reader import Item, Problem, read_items


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def values(path: Path) -> list[Any]:
    return [entry.value for entry in read_items(path) if isinstance(entry, Item)]


def problems(path: Path) -> list[Problem]:
    return [entry for entry in read_items(path) if isinstance(entry, Problem)]


def test_lines_keep_their_number_and_blank_ones_are_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", b'{"n": 1}\n\n  \r\n{"n": 2}\r\n')
    assert list(read_items(path)) == [Item(1, {"n": 1}), Item(4, {"n": 2})]


@pytest.mark.parametrize(
    "content",
    [
        b'[{"n": 1}, {"n": 2}]',
        b'[\n{"n": 1},\n{"n": 2}\n]\n',
        b'[\n{"n": 1}\n,{"n": 2}]',
        json.dumps([{"n": 1}, {"n": 2}], indent=2).encode(),
        b'\xef\xbb\xbf{"n": 1}\n{"n": 2}\n',
        '{"n": 1}\n{"n": 2}\n'.encode("utf-16"),
        '{"n": 1}\n{"n": 2}\n'.encode("utf-32"),
        gzip.compress(b'{"n": 1}\n{"n": 2}\n', mtime=0),
        gzip.compress(b'{"n": 1}\n', mtime=0) + gzip.compress(b'{"n": 2}\n', mtime=0),
    ],
)
def test_the_same_two_items_are_read_from_every_form_of_file(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path / "any.name", content)
    assert values(path) == [{"n": 1}, {"n": 2}]
    assert problems(path) == []


def test_one_indented_object_is_one_item(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", json.dumps({"a": [1, {"b": 2}]}, indent=4).encode())
    assert values(path) == [{"a": [1, {"b": 2}]}]


def test_csv_rows_are_items_without_their_empty_cells(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b'session,name,value\ns1,thumb,1\ns2,"a ""b""",\n')
    assert values(path) == [
        {"session": "s1", "name": "thumb", "value": "1"},
        {"session": "s2", "name": 'a "b"'},
    ]


def test_a_half_written_last_line_is_named_and_the_lines_before_it_are_kept(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", b'{"n": 1}\n{"n": 2}\n{"n": 3, "m')
    assert values(path) == [{"n": 1}, {"n": 2}]
    (problem,) = problems(path)
    assert (problem.line, "no JSON" in problem.why) == (3, True)


def test_a_broken_first_line_does_not_swallow_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", b'{"n": 1, \n{"n": 2}\n{"n": 3}\n')
    assert values(path) == [{"n": 2}, {"n": 3}]
    assert [p.line for p in problems(path)] == [1]


def test_a_truncated_gzip_gives_every_line_before_the_damage(tmp_path: Path) -> None:
    lines = b"".join(
        json.dumps({"n": n, "text": f"{n * 7919 % 9973:x}" * 40}).encode() + b"\n" for n in range(5000)
    )
    whole = gzip.compress(lines)
    path = written(tmp_path / "a.jsonl.gz", whole[: len(whole) // 2])
    found = values(path)
    assert len(found) > 1000
    assert [v["n"] for v in found] == list(range(len(found)))
    assert "compressed data ends early" in problems(path)[-1].why


def test_a_damaged_gzip_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(b'{"n": 1}\n' * 100))
    whole[12] ^= 0xFF
    assert problems(written(tmp_path / "a.gz", bytes(whole)))


def test_a_line_in_another_encoding_is_named_with_its_byte(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", b'{"a": "ok"}\n{"a": "caf\xe9"}\n{"a": "ok"}\n')
    assert len(values(path)) == 2
    (problem,) = problems(path)
    assert problem.line == 2
    assert "not UTF-8 (byte 11)" in problem.why


def test_a_line_that_is_too_long_is_skipped_and_the_next_one_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "MAX_LINE", 2 * 1024 * 1024)
    huge = b'{"a": "' + b"x" * (5 * 1024 * 1024) + b'"}'
    path = written(tmp_path / "a.jsonl", b'{"n": 1}\n' + huge + b'\n{"n": 2}\n' + huge)
    assert values(path) == [{"n": 1}, {"n": 2}]
    assert [p.line for p in problems(path)] == [2, 4]


def test_a_document_beyond_the_limit_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "MAX_DOCUMENT", 1024 * 1024)
    path = written(tmp_path / "a.json", json.dumps([{"n": "x" * 100}] * 20_000, indent=1).encode())
    assert "more than 1 MiB is not read; write it as lines" in problems(path)[0].why


@pytest.mark.parametrize("text", [b"[" * 200_000, b'{"a":' * 100_000, b"[" * 5000 + b"]" * 5000])
def test_json_nested_without_end_is_a_problem(tmp_path: Path, text: bytes) -> None:
    path = written(tmp_path / "a.jsonl", b'{"n": 1}\n' + text + b"\n")
    assert values(path) == [{"n": 1}]
    assert len(problems(path)) == 1


def test_not_a_number_and_lone_surrogates_as_python_writes_them_are_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", b'{"a": NaN, "b": Infinity}\n{"a": "\\ud800"}\n')
    assert values(path)[0] == {"a": None, "b": None}
    assert len(values(path)) == 2


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_file_that_cannot_be_opened_is_refused_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        list(read_items(tmp_path / name))


@settings(deadline=None)
@given(content=st.binary(max_size=400), name=st.sampled_from(["a.jsonl", "a.csv", "a.gz"]))
def test_any_bytes_are_items_or_problems(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    path = tmp_path_factory.mktemp("any") / name
    for prefix in (b"", b"\x1f\x8b", b"\xff\xfe", b'{"a":1}\n'):
        assert all(isinstance(e, Item | Problem) for e in read_items(written(path, prefix + content)))


def test_a_document_of_very_many_short_lines_takes_memory_like_its_size(tmp_path: Path) -> None:
    import tracemalloc

    content = b'{"a": [\n' + b"1,\n" * 100_000
    path = written(tmp_path / "a.json", content)
    tracemalloc.start()
    try:
        found = sum(isinstance(entry, Problem) for entry in read_items(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == 100_001
    assert peak < 8 * 2**20, "a list of lines would take 20 MiB here, and gigabytes for a compressed file"
