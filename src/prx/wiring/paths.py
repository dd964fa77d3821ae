"""Where state lives: `$PRX_HOME`, and the files in it."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path

from prx.domain.errors import StoreError
from prx.domain.ids import Ids
from prx.settings.loading import DEFAULT_FILE, find_file

_DEFAULT = Path(".local/share/prx")
_SECRET_LENGTH = 32


def home_folder(explicit: Path | None, env: Mapping[str, str]) -> Path:
    """The state folder: what was given, else `$PRX_HOME`, else `~/.local/share/prx`."""
    if explicit is not None:
        return explicit.expanduser()
    if env.get("PRX_HOME"):
        return Path(env["PRX_HOME"]).expanduser()
    return Path(env.get("HOME") or os.path.expanduser("~")) / _DEFAULT


def prepare_home(home: Path) -> Path:
    """Make the folder for its owner alone. Raises: StoreError when it cannot be made or written."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"the state folder {home} cannot be made ({error.strerror}); "
            "set PRX_HOME or --home to a folder that you may write"
        ) from error
    if not os.access(home, os.W_OK | os.X_OK):
        raise StoreError(
            f"the state folder {home} cannot be written; change its rights, or set PRX_HOME or --home"
        )
    return home


def config_file(
    explicit: Path | None, env: Mapping[str, str], home: Path, folder: Path | None = None
) -> Path | None:
    """The configuration to read: as `prx.settings.find_file` finds it, else `prx.toml` in the state folder.

    Args: `folder`: the working folder (this process's when None).
    Raises: SettingsError when a file that was named does not exist.
    """
    found = find_file(explicit, env, Path.cwd() if folder is None else folder)
    if found is not None:
        return found
    own = home / DEFAULT_FILE
    return own if own.is_file() else None


def ledger_file(home: Path) -> Path:
    """Control plane."""
    return home / "ledger.sqlite"


def records_file(home: Path) -> Path:
    """Data plane."""
    return home / "records.sqlite"


def spool_folder(home: Path) -> Path:
    """Records on their way to the store."""
    return home / "spool"


def installation_secret(home: Path, ids: Ids) -> str:
    """The random secret of this state folder, made at the first call and readable by its owner alone.

    Raises: StoreError when it can be neither read nor made.
    """
    path = home / "secret.key"
    try:
        if not path.exists():
            _make_secret(path, ids.secret())
        secret = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"the secret of the installation, {path}, cannot be read ({error})") from error
    if len(secret) < _SECRET_LENGTH:
        raise StoreError(f"{path} is damaged; remove it, and a new secret is made at the next start")
    return secret


def _make_secret(path: Path, secret: str) -> None:
    """Whole or not at all; of two processes that make one at the same time the first wins."""
    own = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with os.fdopen(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(secret + "\n")
    try:
        os.link(own, path)
    except FileExistsError:
        pass
    finally:
        own.unlink()
