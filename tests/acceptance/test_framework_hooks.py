"""Real LangChain, LangGraph and OpenAI Agents apps, recorded through their own hooks."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from chat_server import Answer, ChatServer, chat_server, chunk, completion, response

import prx
from prx.domain.records import Interaction, Record, SessionEnd, SessionStart, Terminal, Tokens, ToolStatus
from prx.domain.serving import Serving
from prx.live.evolution import Evolution

# Their own warnings are not ours.
pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]


def call(number: int, q: int) -> dict[str, Any]:
    return {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": "look_up", "arguments": f'{{"q": {q}}}'},
    }


class App:
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.evolution = Evolution(lambda agent: Serving(agent=agent), self.records.append)

    def of(self, kind: type[Any]) -> list[Any]:
        return [record for record in self.records if isinstance(record, kind)]


@pytest.fixture
def app() -> Iterator[App]:
    one = App()
    yield one
    one.evolution.close()
    assert one.evolution.faults == {}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server() as one:
        yield one


def look_up(q: int) -> str:
    """Find a row."""
    if q == 2:
        raise LookupError("no such row")
    return f"row {q}"


def graph(server: ChatServer) -> Any:
    pytest.importorskip("langgraph")
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    tools = [tool(look_up)]
    model = ChatOpenAI(model="gpt-4o", base_url=server.url, api_key="k", max_retries=0).bind_tools(tools)
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    builder.add_node("tools", ToolNode(tools, handle_tool_errors=True))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=InMemorySaver())


ASKED = {"messages": [("system", "Be kind."), ("user", "Where are they?")]}


def runners(handler: Any, thread: str) -> dict[str, Callable[[Any], Any]]:
    config = {"callbacks": [handler], "configurable": {"thread_id": thread}, "metadata": {"user_id": "ada"}}
    return {
        "sync": lambda graph: graph.invoke(ASKED, config),
        "async": lambda graph: asyncio.run(graph.ainvoke(ASKED, config)),
        "stream": lambda graph: list(graph.stream(ASKED, config, stream_mode="messages"))[-1],
    }


@pytest.mark.parametrize("kind", ["sync", "async", "stream"])
def test_a_langgraph_turn_is_recorded_with_what_its_tools_did(
    app: App, server: ChatServer, kind: str
) -> None:
    one = graph(server)
    handler = prx.langchain_handler(app.evolution, agent="desk")
    first = completion("One moment.", tool_calls=[call(1, 1), call(2, 2)])
    if kind == "stream":
        asks = [{**call(n, n), "index": n - 1} for n in (1, 2)]
        pieces = [chunk({"role": "assistant", "content": "One moment."}), chunk({"tool_calls": asks})]
        usage = chunk({}) | {"choices": [], "usage": completion()["usage"]}
        last = [chunk({"content": "Found it."}), chunk({}, "stop"), usage, "[DONE]"]
        server.script = [
            Answer(events=[*pieces, chunk({}, "tool_calls"), usage, "[DONE]"]),
            Answer(events=last),
        ]
    else:
        server.script = [Answer(first), Answer(completion("Found it."))]
    runners(handler, "7")[kind](one)
    asked, answered = app.of(Interaction)
    (start,) = app.of(SessionStart)
    assert (start.user, start.agent, start.ref, start.session_id) == ("ada", "desk", "7", "desk/7")
    assert {asked.session_id, answered.session_id} == {"desk/7"}
    assert [m.role for m in asked.messages] == ["system", "user"]
    assert (asked.response, answered.response) == ("One moment.", "Found it.")
    assert asked.model.startswith("gpt-4o")
    assert asked.tokens == Tokens(input=100, output=20, cache_read=40, reasoning=8)
    assert asked.latency_ms > 0
    assert [(t.call_id, t.arguments, t.status) for t in asked.tool_calls] == [
        ("call_1", '{"q": 1}', ToolStatus.OK),
        ("call_2", '{"q": 2}', ToolStatus.FAILED),
    ]
    assert asked.tool_calls[0].result == "row 1"
    assert "no such row" in (asked.tool_calls[1].result or "")
    assert [m.role for m in answered.messages][-2:] == ["tool", "tool"]
    assert (asked.ttft_ms is not None) is (kind == "stream")
    assert app.of(SessionEnd) == [], "a thread goes on"
    assert app.evolution.runtime.open_calls == {}


def test_a_session_of_the_app_wins_over_the_one_of_the_run(app: App, server: ChatServer) -> None:
    one = graph(server)
    server.script = [Answer(completion("Hi."))]
    with app.evolution.session(user="bob") as session:
        runners(prx.langchain_handler(app.evolution), "1")["sync"](one)
    assert [i.session_id for i in app.of(Interaction)] == [session.id]
    assert len(app.of(SessionStart)) == 1


def test_a_model_without_a_graph_is_recorded_and_so_is_its_failure(app: App, server: ChatServer) -> None:
    pytest.importorskip("langchain_openai")
    from langchain_openai import ChatOpenAI
    from openai import BadRequestError

    server.script = [Answer(completion("Hi.")), Answer({"error": {"message": "bad"}}, status=400)]
    model = ChatOpenAI(model="gpt-4o", base_url=server.url, api_key="k", max_retries=0)
    config = {"callbacks": [prx.langchain_handler(app.evolution)]}
    assert model.invoke("hello", config).content == "Hi."
    with pytest.raises(BadRequestError):
        model.invoke("hello", config)
    done, failed = app.of(Interaction)
    assert (done.response, done.messages[0].content, done.terminal) == ("Hi.", "hello", Terminal.COMPLETED)
    assert (failed.terminal, failed.external_failure) == (Terminal.UPSTREAM_ERROR, False)
    assert [s.unit for s in app.of(SessionStart)] == [None, None]
    assert len(app.of(SessionEnd)) == 2


def test_a_turn_that_is_cut_while_a_tool_runs_keeps_the_answer_of_the_model(
    app: App, server: ChatServer
) -> None:
    pytest.importorskip("langgraph")
    handler = prx.langchain_handler(app.evolution)
    from uuid import uuid4

    from langchain_core.messages import AIMessage, HumanMessage
    from langchain_core.outputs import ChatGeneration, LLMResult

    root, run, tool = uuid4(), uuid4(), uuid4()
    said = AIMessage("One moment.", tool_calls=[{"id": "call_1", "name": "look_up", "args": {"q": 1}}])
    handler.on_chain_start({}, {}, run_id=root)
    handler.on_chat_model_start({}, [[HumanMessage("hi")]], run_id=run, parent_run_id=root)
    handler.on_llm_end(
        LLMResult(generations=[[ChatGeneration(message=said)]]), run_id=run, parent_run_id=root
    )
    handler.on_tool_start({"name": "look_up"}, "", run_id=tool, parent_run_id=root)
    app.evolution.close()
    (record,) = app.of(Interaction)
    assert (record.terminal, record.response) == (Terminal.COMPLETED, "One moment.")
    assert [t.status for t in record.tool_calls] == [ToolStatus.UNKNOWN]


def agent(server: ChatServer, kind: str) -> Any:
    pytest.importorskip("agents")
    from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, function_tool
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=server.url, api_key="k", max_retries=0)
    model = OpenAIChatCompletionsModel if kind == "chat" else OpenAIResponsesModel
    return Agent(
        name="helper",
        instructions="Be kind.",
        tools=[function_tool(look_up)],
        model=model("gpt-4o", openai_client=client),
    )


async def closing(agent: Any, run: Any) -> str:
    """The final output of a run; the client of the agent is closed in the loop that it was used in."""
    try:
        return str((await run).final_output)
    finally:
        await agent.model._client.close()


def answers(kind: str) -> list[Answer]:
    if kind == "chat":
        return [
            Answer(completion("One moment.", tool_calls=[call(1, 1), call(2, 2)])),
            Answer(completion("Found it.")),
        ]
    calls = [
        {
            "id": f"fc_{n}",
            "type": "function_call",
            "status": "completed",
            "call_id": f"call_{n}",
            "name": "look_up",
            "arguments": f'{{"q": {n}}}',
        }
        for n in (1, 2)
    ]
    first, last = response("One moment."), response("Found it.")
    first["output"][1:] = calls
    del last["output"][1:]
    return [Answer(first), Answer(last)]


@pytest.mark.parametrize("kind", ["chat", "responses"])
def test_a_turn_of_openai_agents_is_recorded_with_what_its_tools_did(
    app: App, server: ChatServer, kind: str
) -> None:
    one = agent(server, kind)
    from agents import RunConfig, Runner, set_trace_processors

    set_trace_processors([prx.agents_processor(app.evolution, agent="desk")])
    server.script = answers(kind)
    config = RunConfig(group_id="7", trace_metadata={"user_id": "ada"})
    assert asyncio.run(closing(one, Runner.run(one, "Where are they?", run_config=config))) == "Found it."
    asked, answered = app.of(Interaction)
    (start,) = app.of(SessionStart)
    assert (start.user, start.agent, start.ref, start.session_id) == ("ada", "desk", "7", "desk/7")
    assert (asked.response, answered.response) == ("One moment.", "Found it.")
    assert asked.model.startswith("gpt-4o")
    assert asked.messages[-1].content == "Where are they?"
    assert asked.at <= answered.at
    assert asked.tokens.input in (100, 50)
    assert asked.tokens.reasoning in (8, 3)
    assert [(t.call_id, t.status) for t in asked.tool_calls] == [
        ("call_1", ToolStatus.OK),
        ("call_2", ToolStatus.FAILED),
    ]
    assert asked.tool_calls[0].result == "row 1"
    assert asked.tool_calls[0].latency_ms is not None
    assert app.evolution.runtime.open_calls == {}


def test_a_failed_run_of_openai_agents_is_one_failed_call(app: App, server: ChatServer) -> None:
    one = agent(server, "chat")
    from agents import Runner, set_trace_processors
    from openai import BadRequestError

    set_trace_processors([prx.agents_processor(app.evolution)])
    server.script = [Answer({"error": {"message": "bad"}}, status=400)]
    with pytest.raises(BadRequestError):
        asyncio.run(closing(one, Runner.run(one, "Where?")))
    (record,) = app.of(Interaction)
    assert (record.terminal, record.external_failure) == (Terminal.UPSTREAM_ERROR, False)
    assert "400" in (record.error or "")
    assert len(app.of(SessionEnd)) == 1


def test_a_streamed_run_of_openai_agents_is_recorded(app: App, server: ChatServer) -> None:
    one = agent(server, "chat")
    from agents import Runner, set_trace_processors

    set_trace_processors([prx.agents_processor(app.evolution)])
    pieces = [chunk({"role": "assistant", "content": "Hel"}), chunk({"content": "lo"}), chunk({}, "stop")]
    server.script = [Answer(events=[*pieces, "[DONE]"])]

    async def run() -> Any:
        result = Runner.run_streamed(one, "Where?")
        async for _ in result.stream_events():
            pass
        return result

    assert asyncio.run(closing(one, run())) == "Hello"
    (record,) = app.of(Interaction)
    assert (record.response, record.terminal) == ("Hello", Terminal.COMPLETED)


class Hostile(Exception):
    """Whatever is asked of it fails."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError("no items")


def test_what_the_framework_tells_can_never_fail_the_app() -> None:
    """Their own callers do not catch: OpenAI Agents runs its processors bare."""
    pytest.importorskip("langchain_core")
    pytest.importorskip("agents")
    app, bad, run = App(), Hostile(), uuid4()
    handler, processor = prx.langchain_handler(app.evolution), prx.agents_processor(app.evolution)
    handler.on_chain_start(bad, bad, run_id=run, metadata=bad)
    handler.on_chat_model_start(bad, [[bad]], run_id=run, metadata=bad, invocation_params=bad)
    handler.on_chat_model_start(bad, bad, run_id=run)
    handler.on_llm_start(bad, bad, run_id=run)
    handler.on_llm_new_token(bad, run_id=run)
    handler.on_stream_event(bad, run_id=run)
    handler.on_llm_end(bad, run_id=run)
    handler.on_llm_error(bad, run_id=run)
    handler.on_tool_start(bad, bad, run_id=run)
    handler.on_tool_end(bad, run_id=run)
    handler.on_tool_error(bad, run_id=run)
    handler.on_chain_error(bad, run_id=run)
    handler.on_chain_end(bad, run_id=run)
    for tell in (processor.on_trace_start, processor.on_span_start, processor.on_span_end):
        tell(bad)
    processor.on_trace_end(bad)
    processor.force_flush()
    processor.shutdown()
    assert set(app.evolution.faults) <= {"langchain", "agents", "failure", "call"}
    assert app.evolution.faults["langchain"] > 3
    assert app.evolution.faults["agents"] > 3
    app.evolution.close()
