"""The gateway's endpoints do what their OpenAPI document says, whatever they are sent."""

import json
import re
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import urllib3
from client_house import clients_python, stored
from gateway_house import Provider, gateway, interactions, served

from prx.gateway.openapi import openapi

POOL = urllib3.PoolManager(retries=False)
PASSED = "^/v1/(chat|responses|embeddings)"
TOKEN = "admin-token-0123456789"
LINE = f"all admin {sha256(TOKEN.encode()).hexdigest()}\n"


def test_the_document_is_served_and_names_every_endpoint_of_the_gateway(
    tmp_path: Path, upstream: Provider
) -> None:
    with gateway(tmp_path, upstream.url) as running:
        base = running.url.removesuffix("/v1")
        document = POOL.request("GET", f"{base}/api/v1/openapi.json").json()
        assert document == json.loads(json.dumps(openapi(guarded=False)))
        for path, methods in document["paths"].items():
            if path.startswith("/v1/"):
                continue
            method = next(iter(methods)).upper()
            place = base + path.replace("{session_id}", "s-1")
            assert POOL.request(method, place, body=b"{}").status != 404, path
            wrong = POOL.request("PUT", place, body=b"{}")
            assert (wrong.status, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
            assert method in wrong.headers["allow"]
    assert not [seen for seen in upstream.seen if "probe" not in seen.path]


def test_where_tokens_are_configured_the_document_says_so() -> None:
    paths: dict[str, Any] = openapi(guarded=True)["paths"]
    post = paths["/api/v1/feedback"]["post"]
    assert post["security"] == [{"token": []}]
    assert {"401", "403"} <= set(post["responses"])


def schemathesis(url: str, folder: Path, *arguments: str) -> str:
    """Generated requests, valid and invalid, against the served document; fails on the first wrong answer."""
    program = Path(clients_python()).with_name("st")
    if not program.exists():
        pytest.skip("schemathesis is not installed; `make clients` installs it")
    config = folder / "schemathesis.toml"
    # A time far ahead, and a value that the name of the feedback rules out, are refused too.
    config.write_text(
        "[checks.positive_data_acceptance]\n"
        'expected-statuses = ["2xx", "4xx", 502, 503]\n'
        "[checks.negative_data_rejection]\n"
        'expected-statuses = ["4xx"]\n'
    )
    command = [str(program), "--config-file", str(config), "run"]
    command += [f"{url.removesuffix('/v1')}/api/v1/openapi.json", "--max-examples", "60", "--seed", "5"]
    command += ["--phases", "coverage,fuzzing", "--request-timeout", "20", "--no-color", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
    return done.stdout


@pytest.mark.full
@pytest.mark.parametrize("guarded", [False, True])
def test_the_gateways_own_endpoints_answer_as_described(
    tmp_path: Path, upstream: Provider, guarded: bool
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(LINE)
    more = ["--no-evolution", *(["--tokens", str(tokens)] if guarded else [])]
    with served(tmp_path / "home", upstream.url, *more) as (process, url):
        told = ["-H", f"Authorization: Bearer {TOKEN}"] if guarded else []
        said = schemathesis(url, tmp_path, "--checks", "all", "--exclude-path-regex", PASSED, *told)
        assert not re.search(r"Tested: [0-5]\b", said)
        assert process.poll() is None
        health = POOL.request("GET", url.removesuffix("/v1") + "/health").json()
    assert (health["status"], health["problems"]) == ("ok", [])
    stored(tmp_path / "home")
    assert not [seen for seen in upstream.seen if "probe" not in seen.path]


@pytest.mark.full
def test_what_goes_to_the_provider_never_fails_in_the_gateway_and_is_recorded_once(
    tmp_path: Path, upstream: Provider
) -> None:
    with served(tmp_path / "home", upstream.url, "--no-evolution") as (process, url):
        # By other methods too these paths are the provider's, and so is what an object may hold.
        said = schemathesis(
            url,
            tmp_path,
            *("--include-path-regex", PASSED, "--checks", "all"),
            *("--exclude-checks", "unsupported_method,allow_header_conformance"),
        )
        assert not re.search(r"Tested: [0-2]\b", said)
        assert process.poll() is None
        base = url.removesuffix("/v1")
        assert POOL.request("GET", f"{base}/health").json()["problems"] == []
        records = interactions(tmp_path / "home")
        assert len({one.record_id for one in records}) == len(records)
        refused = [one for one in records if one.intent == "refused"]
        assert len(records) - len(refused) == len(upstream.seen) > 100
