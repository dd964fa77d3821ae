"""Removal of credentials and personal data from text, in time linear in its length.

Every pattern starts only where a token starts (a lookbehind forbids the middle of one), repeats one
character class possessively or within a fixed bound, and so reads no character more often than a fixed
number of times, whatever the text. A pattern runs only where one of its cues stands in the text.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

REDACTION_VERSION: Final = 1
_SHORTEST = 6  # no credential and no personal datum looked for here is shorter


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret. `cues` are lower-case texts of which one must occur before `pattern` is tried,
    grouped by a sign that they contain (`_`, `-`, or empty): one look for the sign spares many others."""

    kind: str
    cues: tuple[tuple[str, tuple[str, ...]], ...]
    pattern: re.Pattern[str]
    replacement: str | Callable[[re.Match[str]], str]


def _rule(kind: str, cues: tuple[str, ...], pattern: str, keep: str = "") -> Rule:
    return Rule(kind, _by_sign(cues), re.compile(pattern), f"{keep}[redacted:{kind}]")


def _by_sign(cues: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    def sign_of(cue: str) -> str:
        return next((sign for sign in "_-" if sign in cue), "")

    signs = sorted({sign_of(cue) for cue in cues})
    return tuple((sign, tuple(cue for cue in cues if sign_of(cue) == sign)) for sign in signs)


_PEM_NAME = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_SECRET_NAME = (
    r"(?i:api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|secret[_-]?(?:access[_-]?)?key|client[_-]?secret|"
    r"password|passwd|passphrase|pwd|(?:auth|access|refresh|id|session)[_-]?token|private[_-]?key)"
)

_SECRET_CUES = (
    "apikey",
    "api_key",
    "api-key",
    "accesskey",
    "access_key",
    "access-key",
    "secret",
    "passw",
    "passphrase",
    "pwd",
    "_token",
    "-token",
    "authtoken",
    "accesstoken",
    "refreshtoken",
    "idtoken",
    "sessiontoken",
    "privatekey",
    "private_key",
    "private-key",
)

CREDENTIALS: Final[tuple[Rule, ...]] = (
    _rule(
        "private-key",
        ("private key",),
        rf"-----BEGIN {_PEM_NAME}"
        rf"(?:[^-]*+(?:-(?!----)[^-]*+)*+-----END {_PEM_NAME}|[A-Za-z0-9+/=\s\\]*+)",
    ),
    _rule(
        "provider-key",
        ("sk-", "sk_", "rk_", "pk_live", "xai-", "gsk_", "hf_", "r8_", "pplx-", "tvly-", "lsv2_", "nvapi-"),
        r"(?<![A-Za-z0-9_-])(?:sk-|sk_(?:live|test)_|rk_(?:live|test)_|pk_live_|xai-|gsk_|hf_|r8_|pplx-|tvly-|"
        r"lsv2_|nvapi-)(?=[A-Za-z0-9_-]{16})[A-Za-z0-9_-]++",
    ),
    _rule("aws-key", ("akia", "asia"), r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _rule(
        "google-key",
        ("aiza", "ya29."),
        r"(?<![A-Za-z0-9_-])(?:AIza[A-Za-z0-9_-]{30,64}+|ya29\.[A-Za-z0-9_-]{20,2048}+)",
    ),
    _rule(
        "git-token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
        r"(?<![A-Za-z0-9_-])(?:gh[pousr]_|github_pat_|glpat-)(?=[A-Za-z0-9_-]{16})[A-Za-z0-9_-]++",
    ),
    _rule("chat-token", ("xox",), r"(?<![A-Za-z0-9])xox[abeoprs]-(?=[A-Za-z0-9-]{10})[A-Za-z0-9-]++"),
    _rule(
        "package-token",
        ("npm_", "pypi-"),
        r"(?<![A-Za-z0-9_-])(?:npm_|pypi-)(?=[A-Za-z0-9_-]{30})[A-Za-z0-9_-]++",
    ),
    _rule(
        "jwt",
        ("eyj",),
        r"(?<![A-Za-z0-9_.-])eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{4,}+(?:\.[A-Za-z0-9_-]*+)?",
    ),
    _rule(
        "authorization",
        ("bearer ", "basic "),
        r"(?<![A-Za-z0-9])(?P<scheme>(?i:bearer|basic)) {1,4}(?=[A-Za-z0-9._~+/=-]{12})"
        r"(?=[A-Za-z0-9._~+/=-]{0,200}[0-9=])[A-Za-z0-9._~+/=-]++",
        keep=r"\g<scheme> ",
    ),
    _rule(
        "url-credentials",
        ("://",),
        r"(?<=://)[^\s/?#@:\"'\\<>]{0,256}:[^\s/?#@\"'\\<>]{1,1024}@",
    ),
    _rule(
        "secret",
        _SECRET_CUES,
        rf"(?P<name>(?<![A-Za-z0-9]){_SECRET_NAME}\\{{0,2}}[\"']?\s{{0,3}}[:=]\s{{0,3}}\\{{0,2}}[\"']?)"
        r"(?!\[redacted:)(?=[^\s\"'\\,;&<>(){}\[\]]{6})[^\s\"'\\,;&<>(){}\[\]]++",
        keep=r"\g<name>",
    ),
)


def _card(match: re.Match[str]) -> str:
    digits = [int(c) for c in match[0] if c.isdigit()]
    doubled = [d if i % 2 else sum(divmod(2 * d, 10)) for i, d in enumerate(reversed(digits), start=1)]
    return "[redacted:card]" if sum(doubled) % 10 == 0 else match[0]


PERSONAL: Final[tuple[Rule, ...]] = (
    _rule(
        "email",
        ("@",),
        r"(?<![\w.+-])[\w.+-]{1,64}+@[A-Za-z0-9-]{1,63}+(?:\.[A-Za-z0-9-]{1,63}+){1,8}",
    ),
    Rule("card", (), re.compile(r"(?<![\w-])\d(?:[ -]?\d){12,18}(?![\w-])"), _card),
    _rule(
        "iban", (), r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"
    ),
    _rule("phone", (), r"(?<![\w.+-])(?:\+\d{1,3}|0\d)(?:[ ().-]{0,2}\d){6,12}(?![\w-])"),
)


def redact(text: str, rules: tuple[Rule, ...] = CREDENTIALS) -> str:
    """The text with every match of `rules` replaced by `[redacted:<kind>]`."""
    if len(text) < _SHORTEST:
        return text
    lowered = text.lower()
    signs = {sign for sign in ("", "_", "-") if sign in lowered}
    for rule in rules:
        if not rule.cues or any(cue in lowered for sign, cues in rule.cues if sign in signs for cue in cues):
            text = rule.pattern.sub(rule.replacement, text)
    return text
