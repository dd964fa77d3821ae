"""`python -m prx.cli`: the command where the script is not installed."""

from prx.cli.main import run

run()
