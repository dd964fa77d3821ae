"""What a forked child must not share with its parent."""

import os
import weakref
from collections.abc import Callable
from typing import Any


def renew_in_children(renew: Callable[[], Any]) -> None:
    """Have a forked child call the bound method `renew` before anything else runs in it, while its object
    lives."""
    # A hook cannot be taken back, so it must not keep the object alive.
    reference = weakref.WeakMethod(renew)

    def after_fork() -> None:
        alive = reference()
        if alive is not None:
            alive()

    os.register_at_fork(after_in_child=after_fork)
