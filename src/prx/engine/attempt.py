"""One step of the engine, fenced: what goes wrong in it stops neither the other steps nor other agents."""

import logging
from collections.abc import Callable

from prx.domain.errors import EvolutionError
from prx.domain.replaced import StoreReplaced
from prx.engine.alerts import raise_alert, resolve_alert
from prx.engine.lease import Busy
from prx.engine.report import Report
from prx.engine.turn import Turn

_LOG = logging.getLogger("prx.engine")


def attempt(turn: Turn, what: str, subject: str, work: Callable[[], object]) -> bool:
    """Do `work`; an error becomes a report step and an alert that stays open until the step succeeds.

    Returns whether it succeeded. Raises: Busy when the lease was lost, since nothing may be written then.
    """
    try:
        work()
    except Busy:
        raise
    except Exception as error:  # noqa: BLE001 - a bug in one step must not stop the rest
        why = told(error, f"{what} of {subject}")
        turn.report.broke(what, subject, why)
        turn.report.replaced |= isinstance(error, StoreReplaced)
        _alert(turn, what, subject, why)
        return False
    resolve_alert(turn, _key(what, subject), f"{what} of {subject} works again")
    return True


def fenced(report: Report, what: str, subject: str, work: Callable[[], object]) -> None:
    """As `attempt`, for work outside of any agent's turn; nothing is told but in the report and the log.

    Busy is not an error: another process does the work.
    """
    try:
        work()
    except Busy as error:
        report.add("lease", subject, "not_enough_data", str(error))
    except Exception as error:  # noqa: BLE001 - a bug in one step must not stop the rest
        report.broke(what, subject, told(error, f"{what} of {subject}"))
        report.replaced |= isinstance(error, StoreReplaced)


def told(error: Exception, place: str) -> str:
    """The error in one sentence; a bug is logged with its traceback, which the sentence points to."""
    if isinstance(error, EvolutionError):
        return str(error)
    _LOG.error("prx: unexpected error in %s", place, exc_info=error)
    return f"unexpected {type(error).__name__}: {error}; the log has the traceback, please report it"


def _alert(turn: Turn, what: str, subject: str, why: str) -> None:
    try:
        raise_alert(turn, _key(what, subject), why, {"step": what, "subject": subject})
    except Busy:
        raise
    except Exception as error:  # noqa: BLE001 - a bug in one step must not stop the rest
        turn.report.add("alert", turn.agent, "error", told(error, "telling of an error"))


def _key(what: str, subject: str) -> str:
    return f"step:{what}/{subject}"
