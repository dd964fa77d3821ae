"""Removal of credentials and personal data from text, in time linear in its length.

Every pattern starts only where a token starts (a lookbehind forbids the middle of one), repeats one
character class possessively or within a fixed bound, and so reads no character more often than a fixed
number of times, whatever the text. A pattern runs only where one of its cues stands in the text.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

REDACTION_VERSION: Final = 2
_SHORTEST = 6  # no credential and no personal datum looked for here is shorter


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret. `cues` are lower-case texts of which one must occur before `pattern` is tried,
    grouped by a sign that they contain (`_`, `-`, or empty): one look for the sign spares many others. Where
    the cues are common words, one of `gates` must also be found in the lower-case text; they begin with
    letters as they stand, which is searched for much faster than what a pattern may begin with."""

    kind: str
    cues: tuple[tuple[str, tuple[str, ...]], ...]
    pattern: re.Pattern[str]
    replacement: str | Callable[[re.Match[str]], str]
    gates: tuple[re.Pattern[str], ...] = ()


def _rule(
    kind: str, cues: tuple[str, ...], pattern: str, keep: str = "", gates: tuple[str, ...] = ()
) -> Rule:
    replacement = f"{keep}[redacted:{kind}]"
    return Rule(kind, _by_sign(cues), re.compile(pattern), replacement, tuple(map(re.compile, gates)))


def _by_sign(cues: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    def sign_of(cue: str) -> str:
        return next((sign for sign in "_-" if sign in cue), "")

    signs = sorted({sign_of(cue) for cue in cues})
    return tuple((sign, tuple(cue for cue in cues if sign_of(cue) == sign)) for sign in signs)


_PEM_NAME = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_SECRET_NAME = (
    r"(?i:api[_-]?key|apikey|access[_-]?key(?:[_-]?id)?|secret[_-]?(?:access[_-]?)?key|"
    r"(?:client|app|consumer|webhook|signing|shared)[_-]?secret|password|passwd|passphrase|pwd|"
    r"(?:auth|access|refresh|id|session|bot|bearer)[_-]?token|"
    r"(?:account|storage|private|signing|encryption|master|shared|subscription)[_-]?(?:access[_-]?)?key)"
)
# Names that ordinary text uses too: what they name must look like a secret.
_LOOSE_NAME = (
    r"(?i:(?<!page[_-])(?<!next[_-])(?<!sync[_-])(?<!continuation[_-])token|"
    r"(?:secret|credential|signature|sig)(?=[^A-Za-z0-9]{1,8}[A-Za-z0-9._~+/=%-]{20}))"
)
# The same words in the languages we serve; a word of prose behind them holds no digit.
_FOREIGN_NAME = (
    r"(?i:contraseña|пароль|токен|密码|密碼|口令|密钥|密鑰|令牌|パスワード|トークン|비밀번호|암호|토큰)"
)
_IS = r"\\{0,2}[\"']?\s{0,3}[:=：]\s{0,3}\\{0,2}[\"']?"

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
    *(f"{name}token" for name in ("auth", "access", "refresh", "id", "session", "bot", "bearer")),
    *(
        f"{name}{sign}key"
        for name in (
            "account",
            "storage",
            "private",
            "signing",
            "encryption",
            "master",
            "shared",
            "subscription",
        )
        for sign in ("", "_", "-")
    ),
)

# Soft hyphen, joiners, marks of direction, word joiner and its kin, variation selectors, byte order mark.
_HIDDEN = (0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0)
_RANGES: Final[tuple[tuple[int, int], ...]] = (
    *((0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F)),
    (0xFE00, 0xFE0F),
    *((0xE0000, 0xE007F), (0xE0100, 0xE01EF)),
)
_NARROW = "".join(map(chr, [*_HIDDEN, *(c for a, b in _RANGES[:-2] for c in range(a, b + 1))]))
_WIDE = re.compile("[" + "".join(f"{chr(a)}-{chr(b)}" for a, b in _RANGES[-2:]) + "]")
_WITHOUT_WIDTH = dict.fromkeys([*map(ord, _NARROW), *(c for a, b in _RANGES for c in range(a, b + 1))])

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
        # Behind `user-` or the like a word may begin so too: there a key must hold a digit.
        r"(?:(?<![A-Za-z0-9_-])|(?<=[_-])(?=[A-Za-z0-9_-]{0,200}[0-9])|(?=sk-(?:proj|ant|or|svcacct)-))"
        r"(?:sk-|sk_(?:live|test)_|rk_(?:live|test)_|pk_live_|xai-|gsk_|hf_|r8_|pplx-|tvly-|"
        r"lsv2_|nvapi-)(?=[A-Za-z0-9_-]{16})[A-Za-z0-9_-]++",
    ),
    _rule("aws-key", ("akia", "asia"), r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _rule(
        "google-key",
        ("aiza", "ya29."),
        r"(?<![A-Za-z0-9])(?:AIza[A-Za-z0-9_-]{30,64}+|ya29\.[A-Za-z0-9_-]{20,2048}+)",
    ),
    _rule(
        "git-token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
        r"(?<![A-Za-z0-9])(?:gh[pousr]_|github_pat_|glpat-)(?=[A-Za-z0-9_-]{16})[A-Za-z0-9_-]++",
    ),
    _rule("chat-token", ("xox",), r"(?<![A-Za-z0-9])xox[abeoprs]-(?=[A-Za-z0-9-]{10})[A-Za-z0-9-]++"),
    _rule(
        "package-token",
        ("npm_", "pypi-"),
        r"(?<![A-Za-z0-9])(?:npm_|pypi-)(?=[A-Za-z0-9_-]{30})[A-Za-z0-9_-]++",
    ),
    _rule(
        "bot-token",
        (":",),
        gates=(r":[a-z0-9_-]{35}",),
        # Telegram: the number of the bot, in addresses behind `bot`, and 35 characters.
        pattern=r"(?<![A-Za-z0-9])(?P<bot>(?:bot)?)\d{8,10}:[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])",
        keep=r"\g<bot>",
    ),
    _rule(
        "service-token",
        ("sg.", "shpat_", "dop_v1_", "lin_api_", "ntn_", "sbp_", "glsa_", "hvs.", "dapi"),
        r"(?<![A-Za-z0-9])(?:SG\.(?=[A-Za-z0-9_-]{16,64}\.)|shpat_|dop_v1_|lin_api_|ntn_|sbp_|glsa_|hvs\.|"
        r"dapi(?=[0-9a-f]{32}))(?=[A-Za-z0-9_.-]{20})[A-Za-z0-9_.-]++",
    ),
    _rule(
        "webhook",
        ("hooks.slack.com/", "/api/webhooks/"),
        r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9_/-]{20,200}+|(?<=/api/webhooks/)\d{5,30}/[A-Za-z0-9_-]{20,200}+",
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
        r"://[^\s/?#@:\"'\\<>]{0,256}:[^\s/?#@\"'\\<>]{1,1024}@",
        keep="://",
    ),
    _rule(
        "secret",
        _SECRET_CUES,
        rf"(?P<name>(?<![A-Za-z0-9]){_SECRET_NAME}{_IS})"
        r"(?!\[redacted:)(?=[^\s\"'\\,;&<>(){}\[\]]{6})[^\s\"'\\,;&<>(){}\[\]]++",
        keep=r"\g<name>",
    ),
    _rule(
        "secret",
        ("token", "secret", "credential", "sig"),
        gates=tuple(
            rf"{name}{_IS}[a-z0-9._~+/=%-]{{12}}"
            for name in ("token", "secret", "credential", "signature", "sig")
        ),
        pattern=rf"(?P<name>(?<![A-Za-z0-9]){_LOOSE_NAME}{_IS})"
        r"(?=[A-Za-z0-9._~+/=%-]{12})(?=[A-Za-z._~+/=%-]{0,200}[0-9])(?=[0-9._~+/=%-]{0,200}[A-Za-z])"
        r"[A-Za-z0-9._~+/=%-]++",
        keep=r"\g<name>",
    ),
    _rule(
        "secret",
        ("contraseña", "пароль", "токен", "密", "口令", "令牌", "パス", "トークン", "비밀", "암호", "토큰"),
        rf"(?P<name>(?<![A-Za-zА-Яа-яёñ0-9]){_FOREIGN_NAME}{_IS})"
        r"(?!\[redacted:)(?=[!-~]{6})(?=[^\s0-9!@#$%^&*]{0,100}[0-9!@#$%^&*])[!-~]++",
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
    """The text with every match of `rules` replaced by `[redacted:<kind>]`.

    Characters without width are looked through: where they hide a match, the text comes back without them.
    """
    if len(text) < _SHORTEST:
        return text
    if not text.isascii() and _hides(text):
        plain = text.translate(_WITHOUT_WIDTH)
        found = _redacted(plain, rules)
        return text if found == plain else found
    return _redacted(text, rules)


def _hides(text: str) -> bool:
    """Whether a character without width stands in the text; looking for each alone is the fastest way."""
    if any(one in text for one in _NARROW):
        return True
    # Only a text of four bytes a character can hold the others.
    return sys.getsizeof(text) >= 4 * len(text) and _WIDE.search(text) is not None


def _redacted(text: str, rules: tuple[Rule, ...]) -> str:
    lowered = text.lower()
    signs = {sign for sign in ("", "_", "-") if sign in lowered}
    for rule in rules:
        if rule.cues and not any(cue in lowered for sign, cues in rule.cues if sign in signs for cue in cues):
            continue
        if rule.gates and not any(gate.search(lowered) for gate in rule.gates):
            continue
        text = rule.pattern.sub(rule.replacement, text)
    return text
