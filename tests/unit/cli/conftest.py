"""A command line over in-memory stores for each test."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "views"))

from cli_terminal import AskedEngine, Terminal
from evolved_world import build_world

from prx.domain.errors import InvalidInput


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    world = build_world()

    def capture() -> tuple[str, str]:
        read = capsys.readouterr()
        return read.out, read.err

    return Terminal(world, AskedEngine(world), tmp_path, capture)


@pytest.fixture
def refusal() -> InvalidInput:
    return InvalidInput("this proposal expired; propose it again")
