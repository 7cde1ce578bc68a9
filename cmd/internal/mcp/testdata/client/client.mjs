// Speaks to postrider mcp with the client of the TypeScript SDK. Standard input has what to do, as JSON:
// {transport: {url, token} or {command, args, env}, calls: [{tool, arguments}]}; standard output gets what came of it:
// {tools, results: [{isError, structured, text}]}. An argument "$confirm" is the confirm of the last answer that had one.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

let text = "";
for await (const chunk of process.stdin) text += chunk;
const todo = JSON.parse(text);

const transport = todo.transport.url
  ? new StreamableHTTPClientTransport(new URL(todo.transport.url), {
      requestInit: { headers: { Authorization: `Bearer ${todo.transport.token}` } },
    })
  : new StdioClientTransport({ ...todo.transport, stderr: "inherit" });
const client = new Client({ name: "postrider-test", version: "1.0.0" });
await client.connect(transport);

const { tools } = await client.listTools();
const results = [];
let confirm = "";
for (const call of todo.calls) {
  const given = { ...call.arguments };
  if (given.confirm === "$confirm") given.confirm = confirm;
  const result = await client.callTool({ name: call.tool, arguments: given });
  confirm = result.structuredContent?.confirm ?? confirm;
  results.push({
    isError: result.isError ?? false,
    structured: result.structuredContent ?? null,
    text: result.content.map((c) => c.text).join("\n"),
  });
}
await client.close();
console.log(JSON.stringify({ tools: tools.map((t) => t.name), results }));
