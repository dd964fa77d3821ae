"""An OpenAI Agents SDK app with a tool and a hand-over: prints the final outputs as JSON."""

import asyncio
import json
import sys
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI


@function_tool
def look_up(city: str) -> str:
    """The weather of a city."""
    return f"{city}: 21 degrees"


async def main(api: str, streaming: bool) -> None:
    set_tracing_disabled(True)
    model: Any = "gpt-4o"
    if api == "chat":
        model = OpenAIChatCompletionsModel(model="gpt-4o", openai_client=AsyncOpenAI())
    agent = Agent(name="weather", instructions="You are the weather agent.", tools=[look_up], model=model)
    said: list[Any] = []
    outputs = []
    for asked in ("Weather in Lima and Kyoto?", "Thank you!"):
        said.append({"role": "user", "content": asked})
        if streaming:
            result: Any = Runner.run_streamed(agent, said)
            async for _event in result.stream_events():
                pass
        else:
            result = await Runner.run(agent, said)
        outputs.append(result.final_output)
        said = result.to_input_list()
    print(json.dumps(outputs))


asyncio.run(main(sys.argv[1], "stream" in sys.argv))
