"""Which arm a unit is in: a pure function of unit and salts, equal in every process and language.

position(salt, unit) is the BLAKE2b digest (RFC 7693) of the UTF-8 unit, keyed with the UTF-8 salt (its
64-byte BLAKE2b digest when the salt is longer than 64 bytes), 8 bytes long, read as a big-endian integer.
A unit takes part if its position under the ramp salt is below floor(ramp * 2**64), and is treated if its
position under the variant salt is below floor(traffic_split * 2**64). Two salts make the two independent;
a growing ramp keeps every unit that is in it in its arm.
"""

from functools import lru_cache
from hashlib import blake2b

from prx.domain.experiments import CONTROL, TREATMENT
from prx.domain.records import UnitSource
from prx.domain.serving import ServedExperiment

_SCALE = 1 << 64
_KEY_BYTES = blake2b.MAX_KEY_SIZE


def position(salt: str, unit: str) -> int:
    """Place of the unit under a salt, uniform in 0 .. 2**64 - 1."""
    hashed = _keyed(salt).copy()
    hashed.update(unit.encode("utf-8", "surrogatepass"))
    return int.from_bytes(hashed.digest(), "big")


@lru_cache(maxsize=256)
def _keyed(salt: str) -> blake2b:
    """The hash after its key, which is the same for all units of an experiment."""
    key = salt.encode("utf-8", "surrogatepass")
    if len(key) > _KEY_BYTES:
        key = blake2b(key).digest()
    return blake2b(key=key, digest_size=8)


def assign(unit: str, experiment: ServedExperiment) -> str | None:
    """`control` or `treatment`; None outside the ramp."""
    if experiment.ramp < 1.0 and position(experiment.ramp_salt, unit) >= int(experiment.ramp * _SCALE):
        return None
    treated = position(experiment.variant_salt, unit) < int(experiment.traffic_split * _SCALE)
    return TREATMENT if treated else CONTROL


def held_back(unit: str, salt: str, share: float) -> bool:
    """Whether the unit keeps the previous version: it is among the highest `share` of positions.

    With the variant salt of an experiment those are units of its control, as long as `share` is no more than
    the control's.
    """
    return position(salt, unit) >= int((1.0 - share) * _SCALE)


def unit_of(rule: str, *, session_id: str | None, user: str | None) -> tuple[str | None, UnitSource]:
    """What is randomised for a session, and where it came from.

    `rule`: `auto` takes the user when there is one, else the session; `user` and `session` take nothing
    else. `session_id` None: the caller named no conversation, so only a user can be the unit. Without a
    unit the source is `none`, and the session is not eligible.
    """
    if rule in ("auto", "user") and user:
        return user, UnitSource.USER
    if rule in ("auto", "session") and session_id:
        return session_id, UnitSource.SESSION
    return None, UnitSource.NONE
