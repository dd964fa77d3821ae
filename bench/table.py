"""Run every benchmark in this folder (`bench/*.py --json`) and print one table; exits 1 over a limit."""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
COLUMNS = (
    "case",
    "ours",
    "unit",
    "limit",
    "ratio_to_limit",
    "peer",
    "peer_name",
    "ratio_to_peer",
    "n",
    "spread",
)


def lines_of(script: Path) -> list[dict[str, object]]:
    done = subprocess.run(
        [sys.executable, str(script), "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return [
            {
                "case": script.stem,
                "note": (done.stderr.strip().splitlines() or ["failed"])[-1],
                "broken": True,
            }
        ]
    return [json.loads(text) for text in done.stdout.splitlines() if text.startswith("{")]


def shown(value: object) -> str:
    if value is None or value == "":
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    bad, notes, machine = [], [], {}
    for script in sorted(HERE.glob("*.py")):
        if script.name == "table.py":
            continue
        for line in lines_of(script):
            print("| " + " | ".join(shown(line.get(c)) for c in COLUMNS) + " |")
            ratio = line.get("ratio_to_limit")
            if line.get("broken") or (isinstance(ratio, int | float) and ratio > 1.0):
                bad.append(str(line["case"]))
            if line.get("note"):
                notes.append(f"{line['case']}: {line['note']}")
            machine[str(line.get("machine", ""))] = line.get("versions", {})
    for name, versions in machine.items():
        if name:
            print(f"\nMachine: {name}; versions: {versions}")
    for note in notes:
        print(f"- {note}")
    if bad:
        raise SystemExit("over the limit or broken: " + ", ".join(bad))


if __name__ == "__main__":
    main()
