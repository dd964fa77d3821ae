"""A decorated function is one session per call, whatever kind of function it is."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from prx.domain.records import Interaction, Record, SessionEnd, SessionStart, Terminal
from prx.domain.serving import Serving
from prx.live.evolution import Evolution
from prx.live.turns import turn


class App:
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.evolution = Evolution(lambda agent: Serving(agent=agent), self.records.append)

    def ask(self, text: str = "hi") -> None:
        session = self.evolution.current()
        assert session is not None
        with session.call(model="m", messages=text) as call:
            call.reply(text="hello")

    def of(self, kind: type[Any]) -> list[Any]:
        return [record for record in self.records if isinstance(record, kind)]


@pytest.fixture
def app() -> Iterator[App]:
    one = App()
    yield one
    one.evolution.close()
    assert one.evolution.faults == {}


def kinds_of_turn(app: App) -> dict[str, Callable[[str], list[str]]]:
    mark = turn(app.evolution, user="user", agent="support")

    @mark
    def plain(user: str) -> list[str]:
        app.ask()
        return ["a", "b"]

    @mark
    async def coroutine(user: str) -> list[str]:
        await asyncio.sleep(0)
        app.ask()
        return ["a", "b"]

    @mark
    def generator(user: str) -> Iterator[str]:
        yield "a"
        app.ask()
        yield "b"

    @mark
    async def asynchronous(user: str) -> AsyncIterator[str]:
        yield "a"
        await asyncio.sleep(0)
        app.ask()
        yield "b"

    async def collected(user: str) -> list[str]:
        return [item async for item in asynchronous(user)]

    return {
        "function": plain,
        "coroutine": lambda user: asyncio.run(coroutine(user)),
        "generator": lambda user: list(generator(user)),
        "async generator": lambda user: asyncio.run(collected(user)),
    }


@pytest.mark.parametrize("kind", ["function", "coroutine", "generator", "async generator"])
def test_each_call_is_a_session_with_its_user_and_its_end(app: App, kind: str) -> None:
    run = kinds_of_turn(app)[kind]
    assert [run("ada"), run("bob")] == [["a", "b"], ["a", "b"]]
    starts = app.of(SessionStart)
    assert [(s.user, s.agent) for s in starts] == [("ada", "support"), ("bob", "support")]
    assert [i.session_id for i in app.of(Interaction)] == [s.session_id for s in starts]
    assert [e.session_id for e in app.of(SessionEnd)] == [s.session_id for s in starts]
    assert app.evolution.current() is None


def test_names_of_parameters_reach_into_attributes_and_keys_and_defaults(app: App) -> None:
    @turn(app.evolution, user="request.who.id", session_id="chat", ref="chat", tenant="request.tenant")
    def handle(request: Any, *, chat: str = "c-1") -> None:
        app.ask()

    handle(SimpleNamespace(who={"id": 7}, tenant="acme"))
    handle(SimpleNamespace(who=None, tenant=None), chat="c-2")
    first, second = app.of(SessionStart)
    assert (first.user, first.session_id, first.ref, first.tenant) == ("7", "c-1", "c-1", "acme")
    assert (second.user, second.session_id, second.tenant) == (None, "c-2", None)
    assert app.of(SessionEnd) == [], "a conversation with an id of the app's own goes on"


def test_a_turn_inside_a_turn_belongs_to_it(app: App) -> None:
    mark = turn(app.evolution)

    @mark
    def sub_agent() -> None:
        app.ask("sub")

    @mark
    def root() -> None:
        app.ask("root")
        sub_agent()

    root()
    assert len(app.of(SessionStart)) == len(app.of(SessionEnd)) == 1
    assert {i.session_id for i in app.of(Interaction)} == {app.of(SessionStart)[0].session_id}


def test_between_the_steps_of_a_generator_the_caller_has_its_own_session(app: App) -> None:
    @turn(app.evolution)
    def talk() -> Iterator[str]:
        yield "one"
        app.ask()
        yield "two"

    with app.evolution.session() as outer_of_nobody:
        outer_of_nobody.end()
    steps = talk()
    assert next(steps) == "one"
    assert app.evolution.current() is None
    with app.evolution.session() as own:
        assert next(steps) == "two"
        assert app.evolution.current() is own
    assert app.of(Interaction)[0].session_id != own.id


def test_leaving_and_throwing_reach_the_function_and_end_its_session(app: App) -> None:
    seen: list[str] = []

    @turn(app.evolution)
    def talk() -> Iterator[str]:
        try:
            yield "one"
        except ValueError:
            seen.append("thrown")
            yield "caught"
        finally:
            assert app.evolution.current() is not None
            seen.append("closed")

    steps = talk()
    next(steps)
    assert steps.throw(ValueError()) == "caught"
    steps.close()
    assert seen == ["thrown", "closed"]
    assert len(app.of(SessionEnd)) == 1


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_what_the_function_raises_passes_and_the_call_in_it_is_recorded(app: App, kind: str) -> None:
    def fail() -> None:
        session = app.evolution.current()
        assert session is not None
        with session.call(model="m"):
            raise LookupError("gone")

    async def fail_later() -> None:
        fail()

    mark = turn(app.evolution)
    with pytest.raises(LookupError, match="gone"):
        mark(fail)() if kind == "function" else asyncio.run(mark(fail_later)())
    assert [i.terminal for i in app.of(Interaction)] == [Terminal.UPSTREAM_ERROR]
    assert len(app.of(SessionEnd)) == 1


def test_threads_and_tasks_do_not_mix_their_turns(app: App) -> None:
    @turn(app.evolution, user="user")
    def plain(user: str) -> None:
        for _ in range(5):
            app.ask(user)

    @turn(app.evolution, user="user")
    async def task(user: str) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
            app.ask(user)

    async def many() -> None:
        await asyncio.gather(*(task(f"t{n}") for n in range(8)))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(plain, [f"p{n}" for n in range(8)]))
    asyncio.run(many())
    users = {start.session_id: start.user for start in app.of(SessionStart)}
    assert len(users) == 16
    calls = app.of(Interaction)
    assert len(calls) == 80
    assert all(users[call.session_id] == call.messages[0].content for call in calls)


def test_a_name_that_is_no_parameter_is_refused_when_decorating(app: App) -> None:
    with pytest.raises(TypeError, match=r"user='customer' names no parameter of .*handle; it has request"):

        @turn(app.evolution, user="customer")
        def handle(request: Any) -> None: ...


def test_wrong_arguments_raise_as_without_the_decorator(app: App) -> None:
    @turn(app.evolution, user="user")
    def handle(user: str) -> str:
        return user

    with pytest.raises(TypeError):
        handle("a", "b")  # type: ignore[call-arg]
    assert handle.__name__ == "handle"
