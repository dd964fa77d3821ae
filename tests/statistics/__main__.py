"""Run cells by name: `python tests/statistics [--runs N] [--part K/N] PATTERN ...`, in the order given.

Results lie under `.slow/` and count for `make test-slow`, which then only runs what is missing.
"""

import argparse
import fnmatch
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from monte_carlo import run, verdict

from table import cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="+", help="names of cells, with * for anything")
    parser.add_argument("--runs", type=int, help="at most so many runs of each cell")
    parser.add_argument("--part", default="1/1", help="of the chosen cells every N-th, from the K-th on")
    options = parser.parse_args()
    every = cells()
    chosen = [c for p in options.patterns for c in every if fnmatch.fnmatch(c.name, p)]
    first, step = map(int, options.part.split("/"))
    for cell in list(dict.fromkeys(chosen))[first - 1 :: step]:
        begin = time.process_time()
        result = run(cell, options.runs)
        took = time.process_time() - begin
        sys.stdout.write(
            f"{cell.name} {result.mean:.5f} of {result.runs}, {verdict(cell, result)}, {took:.0f} s\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
