"""The package's front door: every name resolves, and the door itself is cheap."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import prx.stats


def test_every_public_name_resolves() -> None:
    for name in prx.stats.__all__:
        assert getattr(prx.stats, name) is not None


def test_importing_the_package_alone_loads_no_numeric_library() -> None:
    code = "import sys, prx.stats; print([m for m in sys.modules if m.split('.')[0] in ('numpy', 'scipy')])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such"):
        _ = prx.stats.no_such  # type: ignore[attr-defined]


def test_the_names_that_type_checkers_see_are_those_that_resolve() -> None:
    tree = ast.parse(Path(prx.stats.__file__).read_text())
    block = next(n for n in tree.body if isinstance(n, ast.If))
    seen = {(n.module.rsplit(".", 1)[1], a.name) for n in block.body for a in n.names}  # type: ignore[union-attr]
    assert seen == {(module, name) for name, module in prx.stats._HOME.items()}
