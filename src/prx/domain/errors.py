"""Every error this package raises on purpose; each says what happened, to what, and what to do next."""


class EvolutionError(Exception):
    """Root of all errors raised on purpose; the command line prints its text without a traceback."""


class InvalidInput(EvolutionError):
    """A value given by a person or a program is outside what is accepted."""


class NotFound(EvolutionError):
    """No record has this id."""


class Conflict(EvolutionError):
    """Someone else changed the same thing first; read again, decide again."""


class IllegalTransition(EvolutionError):
    """The life of a change has no such step."""


class SettingsError(EvolutionError):
    """The configuration holds an unknown key or a value out of range."""


class StoreError(EvolutionError):
    """A store could not be opened, read or written."""


class StoreTooNew(StoreError):
    """The store was written by a newer release of PRX Evolution."""


class ModelUnavailable(EvolutionError):
    """A model endpoint did not answer usably; nothing was decided."""


class BadStatistics(EvolutionError):
    """A number given to the statistics is outside the range where they hold."""
