"""Entry point of `prx` and `prx-evolution`; small, so that an interrupt while it loads is quiet too."""

import sys

INTERRUPTED = 130


def run() -> None:
    """Run the command line of this process and exit with its code."""
    try:
        from prx.cli.program import run_process

        code = run_process()
    except KeyboardInterrupt:
        sys.stderr.write("prx: interrupted\n")
        code = INTERRUPTED
    sys.exit(code)
