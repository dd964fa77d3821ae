"""Which code a simulation ran on: a digest of everything that its numbers depend on.

It covers the parsed source, without comments, docstrings and the words of errors, of the simulating module
(its lists of cells left out), of the modules here and under `prx` that it imports, and theirs; the values the
simulation is bound to; and how a batch is seeded. A changed limit or claim does not touch it; a changed
formula does.
"""

import ast
import hashlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"
LONG = re.compile(r"\d+\.\d{12,}")
HARNESS = {"monte_carlo", "provenance"}
# Read when the program starts, as its modules are: an edit during a long run must not relabel its results.
TEXT = {path: path.read_text() for root in (HERE, SOURCE) for path in root.rglob("*.py")}


def digest_of(simulate: Callable[..., Any], *, seed: int, batch: int) -> str:
    """Twelve hexadecimal digits that change with whatever could change the simulated numbers."""
    own = HERE / f"{simulate.__module__}.py"
    parts = [f"default_rng([{seed}, number]), {batch} runs each", bound(simulate)]
    parts += [f"{path.stem}:{code(path)}" for path in sorted(closure(own))]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=6).hexdigest()


def bound(value: Any) -> str:
    """A function by its name and the values it closes over, anything else by its repr."""
    inner = getattr(value, "__wrapped__", value)
    if not callable(inner) or not hasattr(inner, "__code__"):
        # Fitted numbers differ in the last digits with the number of threads.
        return (
            repr(value) if isinstance(value, float) else LONG.sub(lambda m: f"{float(m[0]):.9g}", repr(value))
        )
    names = inner.__code__.co_freevars
    held = ", ".join(
        f"{n}={bound(cell.cell_contents)}"
        for n, cell in zip(names, inner.__closure__ or (), strict=True)
        if cell.cell_contents is not inner
    )
    return f"{inner.__module__}.{inner.__qualname__}({held})"


@cache
def closure(path: Path) -> frozenset[Path]:
    """The file and all files of ours that it imports, directly or not."""
    found, todo = set[Path](), [path]
    while todo:
        file = todo.pop()
        if file not in found:
            found.add(file)
            todo += imports(file)
    return frozenset(found)


def imports(path: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(TEXT[path])):
        if isinstance(node, ast.ImportFrom) and node.module and node.module not in HARNESS:
            names = [node.module, *(f"{node.module}.{a.name}" for a in node.names)]
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names if a.name not in HARNESS]
        else:
            continue
        for name in names:
            for root in (HERE, SOURCE):
                file = root / f"{name.replace('.', '/')}.py"
                if file in TEXT:
                    yield file


@cache
def code(path: Path) -> str:
    """Digest of a file's syntax; docstrings, words of errors and statements that make cells do not count."""
    tree = ast.parse(TEXT[path])
    if path.parent == HERE:
        tree.body = [node for node in tree.body if not _makes_cells(node)]
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            node.exc.args = []
        if isinstance(node, ast.Call):
            node.keywords = [k for k in node.keywords if k.arg != "what"]
    return hashlib.blake2b(ast.dump(tree).encode(), digest_size=16).hexdigest()


def _makes_cells(node: ast.stmt) -> bool:
    return any(
        isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "Cell"
        for part in ast.walk(node)
    )
