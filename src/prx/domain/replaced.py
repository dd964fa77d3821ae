"""A store that is not the one that was opened.

Not in `prx.domain.errors`: every simulation imports that file, and its results count for unchanged code only.
"""

from prx.domain.errors import StoreError


class StoreReplaced(StoreError):
    """The store was replaced by another or an older one while it was open; whoever opens it anew goes on."""
