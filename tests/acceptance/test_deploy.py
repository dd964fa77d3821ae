"""The container file and the systemd unit: what they promise, as far as it can be run without their engines.

No container engine runs here. The build steps are replayed in a virtual environment, and the entry point as
another user in a file system of which all but /data is read-only; the base image itself is not tried.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import urllib3
from chat_server import completion
from gateway_house import interactions, provider, whole

from prx.cli.program import prx

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "deploy" / "Containerfile"
UNIT = ROOT / "deploy" / "prx.service"
UID = 10001
# What a container engine does with --read-only, --cap-drop ALL and --user.
READ_ONLY = """
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -t tmpfs none /tmp/prx-scratch
mount -o remount,bind,ro /
shift
exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set=-all -- "$@"
"""


def steps(path: Path) -> list[tuple[str, str]]:
    """Instructions of a container file with their arguments, continued lines joined."""
    text = path.read_text("utf-8").replace("\\\n", " ")
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def last(name: str) -> str:
    return [rest for word, rest in steps(CONTAINERFILE) if word == name][-1]


def known_options(command: str) -> set[str]:
    found = prx.commands[command]
    return {name for one in found.params if isinstance(one, click.Option) for name in one.opts}


def test_the_container_runs_as_a_user_without_rights_and_writes_only_its_data() -> None:
    user, _, group = last("USER").partition(":")
    assert int(user) == int(group) == UID
    assert last("VOLUME") == "/data"
    assert "PRX_HOME=/data" in last("ENV")
    words = [word for word, _ in steps(CONTAINERFILE)]
    assert words.count("FROM") == 2, "what builds is not in the image"
    assert "ADD" not in words
    assert words.index("USER") > max(place for place, word in enumerate(words) if word in ("RUN", "COPY"))


@pytest.mark.parametrize("place", ["container", "unit"])
def test_what_is_started_are_options_that_exist(place: str) -> None:
    if place == "container":
        command = json.loads(last("ENTRYPOINT"))
    else:
        lines = UNIT.read_text("utf-8").splitlines()
        command = shlex.split(next(line[10:] for line in lines if line.startswith("ExecStart=")))
    assert Path(command[0]).name == "prx"
    assert command[1] == "serve"
    assert {word for word in command if word.startswith("--")} <= known_options("serve")


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "prx.service"
    # Only the program is exchanged: the check wants it to be there.
    unit.write_text(UNIT.read_text("utf-8").replace("/opt/prx/bin/prx", shutil.which("true") or ""), "utf-8")
    done = subprocess.run([tool, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that other users may read; pytest's own is for its owner alone."""
    folder = Path(tempfile.mkdtemp(prefix="prx-image-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def interpreter() -> str:
    """A Python that a user without rights can run."""
    for python in (sys.executable, "/usr/bin/python3"):
        real = os.path.realpath(python)
        command = ["setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups", real, "-c"]
        # It must start itself again: the rights of the first start are those of `setpriv`.
        wanted = (
            "import sys, venv, ensurepip, subprocess; subprocess.run([sys.executable, '-c', ''], check=True);"
        )
        wanted += "sys.exit(sys.version_info < (3, 11))"
        if subprocess.run([*command, wanted], capture_output=True, check=False).returncode == 0:
            return real
    pytest.skip("no Python from 3.11 on that another user may run")


def image(folder: Path) -> Path:
    """What the RUN steps of the build stage make, from what COPY gives them."""
    source = folder / "src"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source / name)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    build = next(rest for word, rest in steps(CONTAINERFILE) if word == "RUN")
    replayed = build.replace("/opt/prx", str(folder / "prx")).replace("/src[", f"{source}[")
    python = interpreter()
    replayed = replayed.replace("python -m venv", f"{python} -m venv", 1)
    subprocess.run(["sh", "-ec", replayed], check=True, capture_output=True)
    return folder / "prx"


@pytest.mark.full
def test_the_image_serves_as_another_user_from_a_read_only_file_system(public: Path) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("setpriv") is None:
        pytest.skip("another user and a read-only file system need root, unshare and setpriv")
    made, data = image(public), public / "data"
    data.mkdir(mode=0o700)
    os.chown(data, UID, UID)
    Path("/tmp/prx-scratch").mkdir(exist_ok=True)
    program, *options = json.loads(last("ENTRYPOINT"))
    options = [word if word != "0.0.0.0" else "127.0.0.1" for word in options]
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    with provider(lambda _seen: whole(completion())) as upstream:
        command = [
            "unshare",
            "-m",
            "sh",
            "-c",
            READ_ONLY,
            "sh",
            str(data),
            str(made / "bin" / program),
            *options,
        ]
        env = {"PRX_HOME": str(data), "PYTHONDONTWRITEBYTECODE": "1", "PATH": f"{made}/bin:/usr/bin:/bin"}
        command += ["--upstream", upstream.url, "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            told = process.stdout.readline().decode().split()
            assert told, process.stderr.read().decode()
            status = Path(f"/proc/{process.pid}/status").read_text()
            root_mount = Path(f"/proc/{process.pid}/mounts").read_text()
            body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
            answer = urllib3.request("POST", f"{told[2]}/chat/completions", body=body)
            ready = urllib3.request("GET", f"{told[2].removesuffix('/v1')}/readyz").status
            process.send_signal(signal.SIGTERM)
            errors = process.stderr.read().decode()
            assert process.wait(60) == 0, errors
    assert (answer.status, ready) == (200, 200)
    assert f"Uid:\t{UID}\t{UID}\t{UID}\t{UID}" in status
    assert "CapEff:\t0000000000000000" in status
    assert any(
        line.split()[1] == "/" and "ro" in line.split()[3].split(",") for line in root_mount.splitlines()
    )
    assert len(interactions(data)) == 1
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*")} == before
    assert {path.stat().st_uid for path in data.rglob("*")} == {UID}
