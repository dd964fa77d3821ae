"""A PydanticAI agent with a tool and a typed output: prints the output and its usage as JSON."""

import asyncio
import json
import sys

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel


class Weather(BaseModel):
    city: str
    degrees: int


async def main(streaming: bool) -> None:
    agent = Agent(OpenAIChatModel("gpt-4o"), output_type=Weather, instructions="You are the weather agent.")

    @agent.tool_plain
    def look_up(city: str) -> str:
        """The weather of a city."""
        return f"{city}: 21 degrees"

    if streaming:
        async with agent.run_stream("Weather in Oslo?") as result:
            output = await result.get_output()
            usage = result.usage
    else:
        done = await agent.run("Weather in Oslo?")
        output, usage = done.output, done.usage
    used = usage() if callable(usage) else usage
    print(json.dumps([output.model_dump(), used.input_tokens, used.output_tokens, used.requests]))


asyncio.run(main("stream" in sys.argv))
