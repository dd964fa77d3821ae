"""Removal of credentials and personal data from text, in time linear in its length.

Every pattern starts only where a token starts (a lookbehind forbids the middle of one), repeats one
character class possessively or within a fixed bound, and so reads no character more often than a fixed
number of times, whatever the text. A pattern runs only where its sign stands in the text; RE2 looks for the
signs of all patterns in one pass over the bytes.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import re2

REDACTION_VERSION: Final = 2
_SHORTEST = 6  # no credential and no personal datum looked for here is shorter


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret. `sign`: what must be found, in any case, before `pattern` is tried; empty: it is
    always tried. Whatever `pattern` finds in a text, `sign` finds in it, and in its JSON form."""

    kind: str
    sign: str
    pattern: re.Pattern[str]
    replacement: str | Callable[[re.Match[str]], str]


def _rule(kind: str, sign: str, pattern: str, keep: str = "") -> Rule:
    return Rule(kind, sign, re.compile(pattern), f"{keep}[redacted:{kind}]")


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

# The same between name and value as it may stand in JSON, for RE2, which looks neither ahead nor behind.
_THEN = r"(?:[\\\"'\x00-\x200-9a-fnrtu]|[^\x00-\x7f]){0,24}"
_SIGN_IS = f"{_THEN}[:=：]"

# Soft hyphen, joiners, marks of direction, word joiner and its kin, variation selectors, byte order mark.
_HIDDEN = (0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0)
_RANGES: Final[tuple[tuple[int, int], ...]] = (
    *((0x180B, 0x180F), (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F)),
    (0xFE00, 0xFE0F),
    *((0xE0000, 0xE007F), (0xE0100, 0xE01EF)),
)
_WITHOUT_WIDTH = dict.fromkeys([*_HIDDEN, *(c for a, b in _RANGES for c in range(a, b + 1))])

CREDENTIALS: Final[tuple[Rule, ...]] = (
    _rule(
        "private-key",
        "private key",
        rf"-----BEGIN {_PEM_NAME}"
        rf"(?:[^-]*+(?:-(?!----)[^-]*+)*+-----END {_PEM_NAME}|[A-Za-z0-9+/=\s\\]*+)",
    ),
    _rule(
        "provider-key",
        r"(?:[sr]k[_-]|pk_live_|xai-|gsk_|hf_|r8_|pplx-|tvly-|lsv2_|nvapi-)[a-z0-9_-]{16}",
        # Behind `user-` or the like a word may begin so too: there a key must hold a digit.
        r"(?:(?<![A-Za-z0-9_-])|(?<=[_-])(?=[A-Za-z0-9_-]{0,200}[0-9])|(?=sk-(?:proj|ant|or|svcacct)-))"
        r"(?:sk-|sk_(?:live|test)_|rk_(?:live|test)_|pk_live_|xai-|gsk_|hf_|r8_|pplx-|tvly-|"
        r"lsv2_|nvapi-)(?=[A-Za-z0-9_-]{16})[A-Za-z0-9_-]++",
    ),
    _rule(
        "aws-key", "(?:akia|asia)[a-z0-9]{16}", r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"
    ),
    _rule(
        "google-key",
        r"aiza[a-z0-9_-]{30}|ya29\.[a-z0-9_-]{20}",
        r"(?<![A-Za-z0-9])(?:AIza[A-Za-z0-9_-]{30,64}+|ya29\.[A-Za-z0-9_-]{20,2048}+)",
    ),
    _rule(
        "git-token",
        "(?:gh[pousr]_|github_pat_|glpat-)[a-z0-9_-]{16}",
        r"(?<![A-Za-z0-9])(?:gh[pousr]_|github_pat_|glpat-)(?=[A-Za-z0-9_-]{16})[A-Za-z0-9_-]++",
    ),
    _rule(
        "chat-token",
        "xox[abeoprs]-[a-z0-9-]{10}",
        r"(?<![A-Za-z0-9])xox[abeoprs]-(?=[A-Za-z0-9-]{10})[A-Za-z0-9-]++",
    ),
    _rule(
        "package-token",
        "(?:npm_|pypi-)[a-z0-9_-]{30}",
        r"(?<![A-Za-z0-9])(?:npm_|pypi-)(?=[A-Za-z0-9_-]{30})[A-Za-z0-9_-]++",
    ),
    _rule(
        "bot-token",
        r"\p{Nd}{8}:[a-z0-9_-]{35}",
        # Telegram: the number of the bot, in addresses behind `bot`, and 35 characters.
        pattern=r"(?<![A-Za-z0-9])(?P<bot>(?:bot)?)\d{8,10}:[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])",
        keep=r"\g<bot>",
    ),
    _rule(
        "service-token",
        r"(?:sg\.|shpat_|dop_v1_|lin_api_|ntn_|sbp_|glsa_|hvs\.|dapi)[a-z0-9_.-]{20}",
        r"(?<![A-Za-z0-9])(?:SG\.(?=[A-Za-z0-9_-]{16,64}\.)|shpat_|dop_v1_|lin_api_|ntn_|sbp_|glsa_|hvs\.|"
        r"dapi(?=[0-9a-f]{32}))(?=[A-Za-z0-9_.-]{20})[A-Za-z0-9_.-]++",
    ),
    _rule(
        "webhook",
        r"hooks\.slack\.com/services/|/api/webhooks/\p{Nd}{5}",
        r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9_/-]{20,200}+|(?<=/api/webhooks/)\d{5,30}/[A-Za-z0-9_-]{20,200}+",
    ),
    _rule(
        "jwt",
        "eyj[a-z0-9_-]{8}",
        # Behind `ref-` or the like too, where its first part holds no dash: so no text is read twice.
        r"(?:(?<![A-Za-z0-9_.-])eyJ[A-Za-z0-9_-]{8,}+|(?<=[_-])eyJ[A-Za-z0-9]{8,}+)"
        r"\.[A-Za-z0-9_-]{4,}+(?:\.[A-Za-z0-9_-]*+)?",
    ),
    _rule(
        "authorization",
        "(?:bearer|basic) {1,4}[a-z0-9._~+/=-]{12}",
        r"(?<![A-Za-z0-9])(?P<scheme>(?i:bearer|basic)) {1,4}(?=[A-Za-z0-9._~+/=-]{12})"
        r"(?=[A-Za-z0-9._~+/=-]{0,200}[0-9=])[A-Za-z0-9._~+/=-]++",
        keep=r"\g<scheme> ",
    ),
    _rule(
        "url-credentials",
        r"://[^\s/?#@\"'<>]*@",
        r"://[^\s/?#@:\"'\\<>]{0,256}:[^\s/?#@\"'\\<>]{1,1024}@",
        keep="://",
    ),
    _rule(
        "secret",
        f"{_SECRET_NAME}{_SIGN_IS}",
        rf"(?P<name>(?<![A-Za-z0-9]){_SECRET_NAME}{_IS})"
        r"(?!\[redacted:)(?=[^\s\"'\\,;&<>(){}\[\]]{6})[^\s\"'\\,;&<>(){}\[\]]++",
        keep=r"\g<name>",
    ),
    _rule(
        "secret",
        rf"(?:token|secret|credential|signature|sig){_SIGN_IS}{_THEN}[a-z0-9._~+/=%-]{{12}}",
        pattern=rf"(?P<name>(?<![A-Za-z0-9]){_LOOSE_NAME}{_IS})"
        r"(?=[A-Za-z0-9._~+/=%-]{12})(?=[A-Za-z._~+/=%-]{0,200}[0-9])(?=[0-9._~+/=%-]{0,200}[A-Za-z])"
        r"[A-Za-z0-9._~+/=%-]++",
        keep=r"\g<name>",
    ),
    _rule(
        "secret",
        f"{_FOREIGN_NAME}{_SIGN_IS}",
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
        "@",
        r"(?<![\w.+-])[\w.+-]{1,64}+@[A-Za-z0-9-]{1,63}+(?:\.[A-Za-z0-9-]{1,63}+){1,8}",
    ),
    Rule("card", "", re.compile(r"(?<![\w-])\d(?:[ -]?\d){12,18}(?![\w-])"), _card),
    _rule(
        "iban", "", r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"
    ),
    _rule("phone", "", r"(?<![\w.+-])(?:\+\d{1,3}|0\d)(?:[ ().-]{0,2}\d){6,12}(?![\w-])"),
)


# Counts as an i where Python ignores case, and not where RE2 does.
_CASELESS = "\u0130"
_HIDING = "[" + "".join(map(chr, _HIDDEN)) + "".join(f"{chr(a)}-{chr(b)}" for a, b in _RANGES) + "]"


class _Signs:
    """Finds the rules that a text could concern, in one pass over its bytes."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        options = re2.Options()
        options.case_sensitive = False
        self._set = re2.Set.SearchSet(options)
        self._rules = tuple(rule for rule in rules if rule.sign)
        self._always = tuple(rule for rule in rules if not rule.sign)
        for rule in self._rules:
            self._set.Add(f"{rule.sign}|{_CASELESS}")
        self._set.Add(_HIDING)
        self._set.Compile()

    def touched(self, body: bytes) -> tuple[tuple[Rule, ...], bool]:
        """Rules that may find something in the UTF-8 text, in their order, those without a sign last; and
        whether characters without width stand in it."""
        found = self._set.Match(body)
        if not found:
            return self._always, False
        hides, rules = len(self._rules), sorted(found)
        return tuple(self._rules[place] for place in rules if place != hides) + self._always, hides in found


@lru_cache(maxsize=8)
def _signs(rules: tuple[Rule, ...]) -> _Signs:
    return _Signs(rules)


_OF_CREDENTIALS: Final = _Signs(CREDENTIALS)


def suspicious(body: bytes) -> bool:
    """Whether a UTF-8 text, or JSON with texts in it, may hold a credential; where not, it holds none."""
    rules, hides = _OF_CREDENTIALS.touched(body)
    return hides or bool(rules)


def redact(text: str, rules: tuple[Rule, ...] = CREDENTIALS) -> str:
    """The text with every match of `rules` replaced by `[redacted:<kind>]`.

    Characters without width are looked through: where they hide a match, the text comes back without them.
    """
    if len(text) < _SHORTEST:
        return text
    signs = _OF_CREDENTIALS if rules is CREDENTIALS else _signs(rules)
    touched, hides = signs.touched(text.encode("utf-8", "surrogatepass"))
    if hides:
        plain = text.translate(_WITHOUT_WIDTH)
        touched, _ = signs.touched(plain.encode("utf-8", "surrogatepass"))
        found = _redacted(plain, touched)
        return text if found == plain else found
    return _redacted(text, touched)


def _redacted(text: str, rules: tuple[Rule, ...]) -> str:
    for rule in rules:
        text = rule.pattern.sub(rule.replacement, text)
    return text
