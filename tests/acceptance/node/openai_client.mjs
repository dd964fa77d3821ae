// The `openai` package for Node against the gateway: prints what it received as JSON.
import OpenAI from "openai";

const client = new OpenAI({ maxRetries: 0 });
const out = {};
const look_up = {
  name: "look_up",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const tools = [{ type: "function", function: look_up }];
const hello = [{ role: "user", content: "hello 你好 😀" }];

out.whole = await client.chat.completions.create({ model: "gpt-4o", messages: hello });

out.chunks = [];
const stream = await client.chat.completions.create({ model: "gpt-4o", messages: hello, stream: true });
for await (const chunk of stream) out.chunks.push(chunk);

const ran = client.chat.completions.runTools({
  model: "gpt-4o",
  messages: [{ role: "user", content: "Weather in Paris and Oslo?" }],
  tools: [
    {
      type: "function",
      function: { ...look_up, parse: JSON.parse, function: ({ city }) => `${city}: 21 degrees` },
    },
  ],
  stream: true,
});
out.tools = await ran.finalContent();

const form = { type: "json_schema", json_schema: { name: "weather", schema: { type: "object" } } };
const parsed = await client.chat.completions.parse({
  model: "gpt-4o",
  messages: [{ role: "user", content: "Weather in Lima?" }],
  response_format: form,
});
out.parsed = JSON.parse(parsed.choices[0].message.content);

const first = await client.responses.create({
  model: "gpt-4o",
  input: "Weather in Kyoto?",
  tools: [{ type: "function", strict: false, ...look_up }],
});
out.response = first;
out.events = [];
const streamed = await client.responses.create({
  model: "gpt-4o",
  input: [{ type: "function_call_output", call_id: first.output[0].call_id, output: "Kyoto: 9 degrees" }],
  previous_response_id: first.id,
  stream: true,
});
for await (const event of streamed) out.events.push(event);

// Leaves a stream after its first words.
const cancelled = await client.chat.completions.create({
  model: "gpt-4o",
  messages: [{ role: "user", content: "long ".repeat(400) }],
  stream: true,
});
for await (const _chunk of cancelled) break;

try {
  await client.chat.completions.create({ model: "gpt-4o", messages: "none" });
} catch (error) {
  out.refused = [error.constructor.name, error.status];
}
console.log(JSON.stringify(out));
