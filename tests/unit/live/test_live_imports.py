import subprocess
import sys

CHECK = """
import pkgutil, sys
import prx.live, prx.spool
for package in (prx.live, prx.spool):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        __import__(module.name)
heavy = {"numpy", "scipy", "apsw", "sqlite3", "openai", "duckdb", "asyncio", "prx.settings", "prx.ledger"}
print(sorted(heavy & set(sys.modules)))
"""


def test_the_hot_path_loads_no_numbers_no_store_and_no_client() -> None:
    done = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
