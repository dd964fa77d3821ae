"""What others call their users, tenants and sessions, as it is kept and compared."""

import hashlib
import unicodedata

_LONGEST = 256


def bounded(text: str) -> str:
    """A client's name for something as it is kept: itself, or its digest where it is very long."""
    if len(text) <= _LONGEST:
        return text
    return "long-" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def composed(text: str) -> str:
    """The one of all canonically equal texts by which names are compared (Unicode NFC)."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def spellings(text: str) -> tuple[str, ...]:
    """The ways in which the same name may have been kept: as told, composed and decomposed (Unicode NFC and
    NFD), and the digest of each where it is very long."""
    forms = (text, composed(text), unicodedata.normalize("NFD", text))
    return tuple(dict.fromkeys(one for form in forms for one in (form, bounded(form))))
