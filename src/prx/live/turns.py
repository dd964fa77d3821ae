"""A decorator that makes a session of each call of a function: one whole turn of an agent."""

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from typing import Any, TypeVar

from prx.domain.records import DEFAULT_AGENT, PRODUCTION
from prx.live.evolution import Evolution
from prx.live.session import Session

F = TypeVar("F", bound=Callable[..., Any])
_FROM_ARGUMENTS = ("ref", "session_id", "user", "tenant")


def turn(
    evolution: Evolution | Callable[[], Evolution],
    *,
    ref: str | None = None,
    session_id: str | None = None,
    user: str | None = None,
    tenant: str | None = None,
    agent: str = DEFAULT_AGENT,
    env: str = PRODUCTION,
    channel: str | None = None,
) -> Callable[[F], F]:
    """A decorator: each call of the function is a session, in which wrapped clients and hooks record.

    Works on functions, coroutines, generators and asynchronous generators. A decorated function that is
    called inside a session of the same Evolution is part of that session, as a sub-agent is.

    Args: `ref`, `session_id`, `user`, `tenant`: the name of the function's parameter that holds it, dotted
        for an attribute or key of it (`user="request.user_id"`). `agent`, `env`, `channel`: as they are.
        `evolution`: an Evolution, or what gives it at the first call.
    Raises, when decorating: TypeError for a name that is no parameter. Never while serving.
    """
    places = {
        name: told
        for name, told in zip(_FROM_ARGUMENTS, (ref, session_id, user, tenant), strict=True)
        if told is not None
    }
    constant = {"agent": agent, "env": env, "channel": channel}

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        for name, path in places.items():
            if path.split(".", 1)[0] not in signature.parameters:
                raise TypeError(
                    f"{name}={path!r} names no parameter of {function.__qualname__}; it has "
                    f"{', '.join(signature.parameters) or 'none'}"
                )

        def open_session(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Session | None:
            """None inside a session that is under way, and when no session can be made."""
            found = evolution if isinstance(evolution, Evolution) else evolution()
            if found.current() is not None:
                return None

            def told() -> dict[str, Any]:
                try:
                    bound = signature.bind_partial(*args, **kwargs)
                except TypeError:
                    # The call itself will say so.
                    return {}
                bound.apply_defaults()
                return {name: _at(bound.arguments, path) for name, path in places.items()}

            scope: dict[str, Any] = {**constant, **(found.guard("turn", told) or {})}
            return found.session(**scope)

        return _around(function, open_session)

    return decorate


def _around(function: F, open_session: Callable[[tuple[Any, ...], dict[str, Any]], Session | None]) -> F:
    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        session = open_session(args, kwargs)
        if session is None:
            return function(*args, **kwargs)
        with session:
            return function(*args, **kwargs)

    @functools.wraps(function)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        session = open_session(args, kwargs)
        if session is None:
            return await function(*args, **kwargs)
        async with session:
            return await function(*args, **kwargs)

    @functools.wraps(function)
    def generator(*args: Any, **kwargs: Any) -> Any:
        session = open_session(args, kwargs)
        inner = function(*args, **kwargs)
        return (yield from inner if session is None else _steps(session, inner))

    @functools.wraps(function)
    async def asynchronous(*args: Any, **kwargs: Any) -> Any:
        session = open_session(args, kwargs)
        inner = function(*args, **kwargs)
        steps = inner if session is None else _async_steps(session, inner)
        try:
            async for item in steps:
                yield item
        finally:
            await steps.aclose()

    if inspect.isasyncgenfunction(function):
        return asynchronous  # type: ignore[return-value]
    if inspect.iscoroutinefunction(function):
        return coroutine  # type: ignore[return-value]
    return generator if inspect.isgeneratorfunction(function) else plain  # type: ignore[return-value]


def _steps(session: Session, inner: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """The generator's steps, each inside the session; between two steps the caller is not."""
    session.start()
    step: Callable[[], Any] = lambda: next(inner)  # noqa: E731  replaced at every step
    try:
        while True:
            try:
                with session.here():
                    item = step()
            except StopIteration as stop:
                return stop.value
            try:
                sent = yield item
                step = functools.partial(inner.send, sent)
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001  whatever the caller throws belongs to the function
                step = functools.partial(inner.throw, error)
    finally:
        with session.here():
            inner.close()
        session.leave()


async def _async_steps(session: Session, inner: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, Any]:
    session.start()
    try:
        while True:
            try:
                with session.here():
                    item = await inner.__anext__()
            except StopAsyncIteration:
                return
            yield item
    finally:
        with session.here():
            await inner.aclose()
        session.leave()


def _at(arguments: Mapping[str, Any], path: str) -> Any:
    first, *rest = path.split(".")
    found: Any = arguments.get(first)
    for name in rest:
        found = found.get(name) if isinstance(found, Mapping) else getattr(found, name, None)
    return found
