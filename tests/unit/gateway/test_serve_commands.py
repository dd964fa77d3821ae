"""`prx serve` refuses what is unsafe, and `prx prompts` keeps a person between learning and serving."""

import contextlib
import io
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from prx.domain.errors import Conflict, InvalidInput, NotFound, StoreError
from prx.gateway.prompts.store import Learned, PromptFiles, drifted

NOW = datetime(2026, 12, 1, tzinfo=UTC)
TEXT = "You are the agent of {slot_1}."


def learned(name: str = "system", text: str = TEXT, **more: Any) -> Learned:
    return Learned(agent="default", name=name, text=text, slots=("slot_1",), first_seen=NOW, **more)


@pytest.fixture
def files(tmp_path: Path) -> PromptFiles:
    one = PromptFiles(tmp_path)
    one.learn(lambda _known: learned())
    return one


def run(home: Path, *arguments: str, **env: str) -> tuple[int, str, str]:
    from prx.cli.call import Outside
    from prx.cli.program import main, wired

    out, err = io.StringIO(), io.StringIO()
    outside = Outside(wired, {"PRX_HOME": str(home), "HOME": str(home), **env}, lambda: NOW, home)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments, outside)
    return code, out.getvalue(), err.getvalue()


def test_accepting_twice_changes_nothing_and_keeps_the_first_time(files: PromptFiles) -> None:
    first = files.accept("default", "system", new_name="support", now=NOW, by="ada")
    again = files.accept("default", "system", new_name="support", now=NOW.replace(year=2027), by="bo")
    assert first == again
    assert files.accepted() == (first,)


def test_what_was_not_learned_cannot_be_accepted(files: PromptFiles) -> None:
    with pytest.raises(NotFound, match="learned: system"):
        files.accept("default", "other", new_name=None, now=NOW, by="ada")
    with pytest.raises(NotFound):
        files.accept("another-agent", "system", new_name=None, now=NOW, by="ada")


def test_a_name_is_not_taken_over_by_another_prompt(files: PromptFiles) -> None:
    files.accept("default", "system", new_name="support", now=NOW, by="ada")
    files.learn(lambda _known: learned("system-2", "Translate {slot_1}."))
    with pytest.raises(Conflict, match="--as"):
        files.accept("default", "system-2", new_name="support", now=NOW, by="ada")
    follower = learned("system-3", "You are the kind agent of {slot_1}.", follows="support")
    files.learn(lambda _known: follower)
    assert files.accept("default", "system-3", new_name="support", now=NOW, by="ada").text == follower.text


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 65, "a b"])
def test_a_name_that_could_leave_the_folder_is_refused(files: PromptFiles, name: str) -> None:
    with pytest.raises(InvalidInput):
        files.accept("default", "system", new_name=name or "-", now=NOW, by="ada")


def test_a_damaged_file_says_which_and_what_to_do(files: PromptFiles, tmp_path: Path) -> None:
    (tmp_path / "prompts" / "learned.json").write_bytes(b"{")
    with pytest.raises(StoreError, match=r"learned\.json"):
        files.learned()


def test_files_that_differ_or_are_missing_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("same")
    (tmp_path / "b.txt").write_text("old")
    assert drifted(tmp_path, {"a": "same", "b": "new", "c": "new"}) == ["b", "c"]


def test_prompts_go_from_learned_to_accepted_to_files(files: PromptFiles, tmp_path: Path) -> None:
    folder = str(tmp_path / "git")
    code, out, _ = run(tmp_path, "prompts", "list", "--json")
    assert code == 0
    assert [(row["name"], row["state"]) for row in json.loads(out)] == [("system", "learned")]
    assert run(tmp_path, "prompts", "check", "--to", folder)[0] == 0
    assert "Nothing is replaced before" in run(tmp_path, "prompts", "list")[1]
    assert run(tmp_path, "prompts", "accept", "system", "--as", "support")[0] == 0
    assert "Nothing is replaced before" not in run(tmp_path, "prompts", "list")[1]
    code, out, _ = run(tmp_path, "prompts", "check", "--to", folder)
    assert code == 1
    assert "support" in out
    assert run(tmp_path, "prompts", "pull", "--to", folder)[0] == 0
    assert (tmp_path / "git" / "support.txt").read_text() == TEXT
    assert run(tmp_path, "prompts", "check", "--to", folder)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--upstream", "https://x/v1", "--host", "0.0.0.0"], "refusing to listen"),
        (["--upstream", "not-a-url"], "no base URL"),
        (["--upstream", "https://x/v1", "--key-mode", "gateway"], "needs the provider's key"),
        (["--upstream", "https://x/v1", "--upstream-key", "sk-1"], "env:NAME or file:PATH"),
        (["--upstream", "https://x/v1", "--upstream-key", "env:NONE"], "holds nothing"),
    ],
)
def test_serve_refuses_to_start_where_it_would_be_unsafe(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    code, _, err = run(tmp_path, "serve", *arguments)
    assert code == 1
    assert says in err
    assert "sk-1" not in err


def test_a_port_that_is_taken_is_said_so(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, _, err = run(tmp_path, "serve", "--upstream", "https://x/v1", "--port", port)
    assert code == 1
    assert f"port {port}" in err


def test_importing_prx_loads_nothing_of_the_gateway() -> None:
    code = (
        "import sys, prx; "
        "print([m for m in ('aiohttp', 'starlette', 'uvicorn', 'prx.gateway') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_gateway_loads_no_numeric_library() -> None:
    code = "import sys, prx.gateway.opening as _; print({'numpy', 'scipy', 'duckdb'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_token_files_hold_digests_only(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("app proxy,ingest my-secret-token-itself\n")
    code, _, err = run(tmp_path, "serve", "--upstream", "https://x/v1", "--tokens", str(path))
    assert code == 1
    assert "my-secret-token-itself" not in err


def test_a_token_file_that_is_no_text_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_bytes(b"\xe9\x00\xff" * 50)
    code, out, err = run(
        tmp_path, "serve", "--upstream", "http://127.0.0.1:9/v1", "--tokens", str(tmp_path / "tokens")
    )
    assert code != 0
    assert "is no text in UTF-8" in err
    assert "Traceback" not in out + err
