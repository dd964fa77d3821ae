"""One recorded input run again on the agent's model, with recorded tool results in place of tools."""

from collections import Counter
from dataclasses import dataclass

from prx.domain.records import Message, ToolCall
from prx.models.port import ChatModel, ChatReply, ChatRequest
from prx.prove.rules import RunRules
from prx.prove.tasks import Task
from prx.prove.toolbook import canonical


@dataclass(frozen=True, slots=True)
class Ran:
    """The answer and what it took over all rounds; None where not known for every round."""

    text: str
    latency_ms: float
    tokens: int | None
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Diverged:
    """The run asked for something that was never recorded, so that it cannot go on."""

    why: str


def run(task: Task, messages: tuple[Message, ...], agent: ChatModel, rules: RunRules) -> Ran | Diverged:
    """The agent's answer to `messages`. Raises: ModelUnavailable, BudgetSpent."""
    seen: Counter[tuple[str, str]] = Counter()
    replies: list[ChatReply] = []
    for _ in range(rules.max_rounds):
        reply = agent.complete(_request(task, messages, rules))
        replies.append(reply)
        if not reply.tool_calls:
            return _ran(reply.text, replies)
        answers = []
        for call in reply.tool_calls:
            key = (call.name, canonical(call.arguments))
            result = task.tools.result(call.name, call.arguments, seen[key])
            if result is None:
                return Diverged(f"tool {call.name} was called with arguments that were never recorded")
            seen[key] += 1
            answers.append(Message(role="tool", content=result, tool_call_id=_id(call, key)))
        calls = tuple(_with_id(call) for call in reply.tool_calls)
        messages = (*messages, Message(role="assistant", content=reply.text, tool_calls=calls), *answers)
    return Diverged(f"no answer after {rules.max_rounds} rounds of tool calls")


def _request(task: Task, messages: tuple[Message, ...], rules: RunRules) -> ChatRequest:
    tools = task.interaction.extra.get("tools", ())
    listed = (
        tuple(tool for tool in tools if isinstance(tool, dict)) if isinstance(tools, list | tuple) else ()
    )
    return ChatRequest(
        model="",
        messages=messages,
        temperature=rules.temperature,
        seed=rules.seed,
        max_tokens=rules.max_tokens,
        tools=listed,
    )


def _ran(text: str, replies: list[ChatReply]) -> Ran:
    totals = [reply.tokens.total for reply in replies]
    costs = [reply.cost_usd for reply in replies]
    return Ran(
        text=text,
        latency_ms=sum(reply.latency_ms for reply in replies),
        tokens=sum(t for t in totals if t is not None) if None not in totals else None,
        cost_usd=sum(c for c in costs if c is not None) if None not in costs else None,
    )


def _id(call: ToolCall, key: tuple[str, str]) -> str:
    return call.call_id or f"{key[0]}:{key[1]}"


def _with_id(call: ToolCall) -> ToolCall:
    key = (call.name, canonical(call.arguments))
    return ToolCall(name=call.name, arguments=call.arguments, call_id=_id(call, key))
