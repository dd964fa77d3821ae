"""False alarms and finds of breaker and watch; the long runs are resumable under .slow/."""

import breaker_cells
import pytest
import watch_cells
from monte_carlo import Cell, compatible, holds, run, run_fast

CELLS = [*breaker_cells.cells(), *watch_cells.cells()]


def _named(cell: Cell) -> str:
    return cell.name


@pytest.mark.parametrize("cell", [c for c in CELLS if c.fast_runs and not c.control], ids=_named)
def test_a_short_run_leaves_the_claimed_rate_possible(cell: Cell) -> None:
    result = run_fast(cell)
    assert compatible(cell, result), f"{cell.claim}: {result}"


@pytest.mark.parametrize("cell", [c for c in CELLS if c.fast_runs and c.control], ids=_named)
def test_a_short_run_of_a_negative_control_refutes_the_claim(cell: Cell) -> None:
    result = run_fast(cell)
    assert not compatible(cell, result), f"{cell.claim}: {result}"


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS, ids=_named)
def test_the_claimed_rate_holds_and_a_negative_control_does_not(cell: Cell) -> None:
    result = run(cell)
    assert holds(cell, result), f"{cell.claim}: {result}"
