"""LiteLLM in front of the gateway: prints a whole and a streamed answer and a tool call as JSON."""

import json

import litellm


def main() -> None:
    litellm.suppress_debug_info = True
    said = [{"role": "user", "content": "hello"}]
    made = litellm.completion(model="openai/gpt-4o", messages=said, num_retries=0)
    out = [made.choices[0].message.content, made.usage.prompt_tokens, made.usage.completion_tokens]
    stream = litellm.completion(model="openai/gpt-4o", messages=said, stream=True, num_retries=0)
    out.append("".join(piece.choices[0].delta.content or "" for piece in stream))
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "look_up", "parameters": parameters}}
    asked = [{"role": "user", "content": "Weather in Lima?"}]
    message = litellm.completion(model="openai/gpt-4o", messages=asked, tools=[tool]).choices[0].message
    out.append([[c.id, c.function.name, c.function.arguments] for c in message.tool_calls])
    print(json.dumps(out))


main()
