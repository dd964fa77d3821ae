"""A LangGraph agent with tools, as its users write one: prints what the graph went through as JSON."""

import json
import sys
from typing import Annotated, Any, TypedDict

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]


@tool
def look_up(city: str) -> str:
    """The weather of a city."""
    return f"{city}: 21 degrees"


def main(streaming: bool) -> None:
    model = ChatOpenAI(model="gpt-4o", max_retries=0, streaming=streaming).bind_tools([look_up])
    graph = StateGraph(State)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([look_up]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    agent = graph.compile()
    state: dict[str, Any] = {"messages": [("system", "You are the weather agent.")]}
    for asked in ("Weather in Paris and Oslo?", "Thank you!"):
        state = agent.invoke({"messages": [*state["messages"], ("user", asked)]})
    out = [
        {
            "type": one.type,
            "content": one.content,
            "calls": [[c["name"], c["args"], c["id"]] for c in getattr(one, "tool_calls", ())],
            "tokens": getattr(one, "usage_metadata", None) and one.usage_metadata["input_tokens"],
        }
        for one in state["messages"]
    ]
    print(json.dumps(out))


main("stream" in sys.argv)
