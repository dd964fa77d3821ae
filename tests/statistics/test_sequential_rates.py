"""Error rates, coverage and traffic of the sequential design; the long runs are `make test-slow`."""

import clustered
import decision_cells
import pytest
import sequential_cells
import stream_cells
from monte_carlo import Cell, compatible, holds, run, run_fast

CELLS = [
    *sequential_cells.cells(),
    *clustered.cells(),
    *stream_cells.cells(),
    *decision_cells.cells(),
]


def named(chosen: list[Cell]) -> list[object]:
    return [pytest.param(c, id=c.name) for c in chosen]


@pytest.mark.parametrize("cell", named([c for c in CELLS if c.fast_runs and not c.control]))
def test_a_short_run_agrees_with_the_claim(cell: Cell) -> None:
    result = run_fast(cell)
    assert compatible(cell, result), result


@pytest.mark.parametrize("cell", named([c for c in CELLS if c.fast_runs and c.control]))
def test_the_harness_refuses_a_wrong_procedure_even_in_a_short_run(cell: Cell) -> None:
    assert not compatible(cell, run_fast(cell))


@pytest.mark.slow
@pytest.mark.parametrize("cell", named([c for c in CELLS if not c.control]))
def test_the_rate_lies_in_the_claimed_range(cell: Cell) -> None:
    result = run(cell)
    assert holds(cell, result), result


@pytest.mark.slow
@pytest.mark.parametrize("cell", named([c for c in CELLS if c.control]))
def test_the_harness_refuses_a_wrong_procedure(cell: Cell) -> None:
    result = run(cell)
    assert holds(cell, result), result
