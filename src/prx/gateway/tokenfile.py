"""The tokens of a file that may change while the gateway runs: a token is revoked by removing its line."""

import logging
from pathlib import Path

from prx.domain.errors import SettingsError
from prx.gateway.tokens import Tokens, parse_tokens

_LOG = logging.getLogger("prx.gateway")


class TokenFile(Tokens):
    """Follows a file of tokens; what cannot be read leaves the last ones in force, and is said.

    Raises: SettingsError, OSError when it cannot be read at first.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path.expanduser()
        self._stamp = self._stamp_now()
        self._take(self._read())

    def __bool__(self) -> bool:
        # A file without a token left lets nobody in, not everybody.
        return True

    def look(self) -> None:
        """Read the file again when it changed; called several times a second."""
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._take(self._read())
        except (SettingsError, OSError) as error:
            self.problem = f"tokens: {error}; the last ones that could be read are in force"
            _LOG.error("%s", self.problem)
            return
        self.problem = ""
        _LOG.info("read the tokens again")

    def _read(self) -> Tokens:
        try:
            text = self._path.read_text("utf-8")
        except UnicodeDecodeError:
            raise SettingsError(
                f"{self._path} is no text in UTF-8; give lines of NAME SCOPES SHA256"
            ) from None
        return parse_tokens(text, str(self._path))

    def _stamp_now(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size
