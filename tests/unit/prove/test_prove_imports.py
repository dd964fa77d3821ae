"""Importing the proofs costs no numerical library."""

import subprocess
import sys


def test_importing_proofs_and_models_loads_neither_scipy_nor_numpy() -> None:
    code = (
        "import sys, prx.prove, prx.models.endpoint, prx.models.meter; "
        "print(sorted({'scipy', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
