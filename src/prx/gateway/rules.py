"""What an operator decides about a gateway."""

import ipaddress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from prx.domain.errors import SettingsError
from prx.gateway.policy import Policy
from prx.gateway.tokens import Scope, Tokens

DEFAULT_PORT = 3120
_MIB = 1024 * 1024


class KeyMode(StrEnum):
    """`passthrough`: the client's own key goes to the provider. `gateway`: clients show a token of ours,
    and the provider gets the operator's key."""

    PASSTHROUGH = "passthrough"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True)
class GatewayRules:
    """Limits and places. Sizes in bytes, times in seconds.

    `upstream`: base URL of an OpenAI-compatible provider, such as `https://api.openai.com/v1`.
    `drain_seconds`: how long requests under way may go on after the stop signal; `cut_seconds`: how long
    those cut then may take to leave. `recorded_bytes`: of a request or an answer beyond it the envelope
    alone is recorded. `policy`: None takes that of the configuration. `idle_seconds`: longest silence of
    the provider. `head_seconds`, `body_seconds`: how long a client may take to send the head and the body
    of a request; `stall_seconds`: for how long it may take nothing of its answer.
    """

    upstream: str
    home: Path
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    key_mode: KeyMode = KeyMode.PASSTHROUGH
    upstream_key: str | None = field(default=None, repr=False)
    tokens: Tokens = field(default_factory=Tokens)
    max_body: int = 100 * _MIB
    recorded_bytes: int = 16 * _MIB
    connect_seconds: float = 10.0
    idle_seconds: float = 600.0
    head_seconds: float = 30.0
    body_seconds: float = 300.0
    stall_seconds: float = 120.0
    drain_seconds: float = 30.0
    cut_seconds: float = 5.0
    sessions_kept: int = 8192
    ask_usage: bool = True
    policy: Policy | None = None


def check(rules: GatewayRules) -> None:
    """Raises: SettingsError when a gateway with these rules would be unsafe or could not work."""
    target = urlsplit(rules.upstream)
    if target.scheme not in ("http", "https") or not target.hostname or target.query or target.fragment:
        raise SettingsError(
            f"--upstream {rules.upstream!r} is no base URL; give one such as https://api.openai.com/v1"
        )
    if target.username or target.password:
        raise SettingsError("--upstream must not hold a key; use --upstream-key env:NAME for it")
    if rules.key_mode is KeyMode.GATEWAY and not (rules.upstream_key and rules.tokens.any_for(Scope.PROXY)):
        raise SettingsError(
            "--key-mode gateway needs the provider's key (--upstream-key env:NAME) and a token with scope "
            "proxy (--tokens FILE)"
        )
    if not is_loopback(rules.host):
        missing = [s.value for s in (Scope.PROXY, Scope.INGEST) if not rules.tokens.any_for(s)]
        if missing:
            raise SettingsError(
                f"refusing to listen on {rules.host}, which others can reach, without keys: no token has "
                f"scope {' or '.join(missing)}; give --tokens FILE, or listen on 127.0.0.1"
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
