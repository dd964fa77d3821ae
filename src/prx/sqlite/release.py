"""Which SQLite releases are safe with several processes."""

from prx.domain.errors import StoreError

_FIRST_WITH_WAL = (3, 7, 0)
_FIXED = (3, 51, 3)
_FIXED_BRANCHES = ((3, 44, 6), (3, 50, 7))


def refuse_wal_reset_bug(version: str) -> None:
    """Silent for a release without the WAL-reset bug, which can corrupt a file that several processes write.

    Affected: 3.7.0 to 3.51.2, except 3.44.6 and later 3.44.x, 3.50.7 and later 3.50.x.
    Raises: StoreError for an affected release.
    """
    number = tuple(int(piece) for piece in version.split(".")[:3])
    back_ported = any(number[:2] == fixed[:2] and number >= fixed for fixed in _FIXED_BRANCHES)
    if _FIRST_WITH_WAL <= number < _FIXED and not back_ported:
        raise StoreError(
            f"SQLite {version} can corrupt a database that several processes write (the WAL-reset bug); "
            "nothing was opened; install the apsw wheel that prx-evolution asks for: pip install -U apsw"
        )
