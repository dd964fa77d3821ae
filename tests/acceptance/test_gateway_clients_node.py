"""The `openai` package for Node, unmodified, against `prx serve`."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from client_house import calls_of, house, node, run_program
from gateway_house import Reply, Seen, eventually, whole

from prx.domain.records import Terminal

pytestmark = pytest.mark.full
HERE = Path(__file__).parent / "node"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package at the pinned version, installed by npm; no lock file is kept."""
    node()
    folder = tmp_path_factory.mktemp("node")
    for name in ("package.json", "openai_client.mjs"):
        shutil.copy(HERE / name, folder / name)
    command = ["npm", "install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False, env=os.environ)
    if done.returncode != 0:
        pytest.skip(f"npm could not install the openai package: {done.stderr.decode()[-300:]}")
    return folder


def test_the_openai_package_for_node_gets_what_the_provider_sent(program: Path, tmp_path: Path) -> None:
    with house(tmp_path) as one:
        gate = one.front()
        model = gate.model

        def script(seen: Seen) -> Reply:
            if b'"none"' in seen.body:
                return whole({"error": {"message": "messages must be a list", "type": "t"}}, status=400)
            model.pause = 0.05 if b"long long" in seen.body else 0.0
            return model(seen)

        gate.upstream.script = script
        got = run_program([node(), "openai_client.mjs"], gate.url, cwd=program)
        sent = model.sent
        assert {k: v for k, v in got["whole"].items() if k != "_request_id"} == sent[0]
        assert got["chunks"] == [one for one in sent[1] if one["choices"]]
        assert got["tools"] == "Paris: 21 degrees Oslo: 21 degrees"
        assert got["parsed"] == {"city": "Lima", "degrees": 21}
        assert got["response"]["output"] == sent[5]["output"]
        assert got["events"] == sent[6]
        assert got["refused"] == ["BadRequestError", 400]
        eventually(lambda: gate.upstream.gone == 1)
        traces = gate.stored()
    records = calls_of(traces)
    assert len(records) == len(gate.upstream.seen) == 9
    assert [r.terminal for r in records] == [Terminal.COMPLETED] * 7 + [
        Terminal.CLIENT_CANCELLED,
        Terminal.UPSTREAM_ERROR,
    ]
    session = [r.session_id for r in records]
    assert session[2] == session[3]
    assert session[5] == session[6]
    assert len(set(session)) == 7
    assert [c.name for c in records[2].tool_calls] == ["look_up", "look_up"]
    assert records[6].response == "Kyoto: 9 degrees"
    assert records[0].tokens.input == got["whole"]["usage"]["prompt_tokens"]
