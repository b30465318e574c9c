// A server by the TypeScript SDK (version 1) whose tools have names that few servers
// have, and which writes down what it runs.
//
//   node server.mjs WITNESS
//
// Each call appends "TOOL PID" to the file WITNESS when it begins. Every tool answers
// with the name it was called by; the tool "slow" does so after a minute only. Like
// some real servers it does not end when its standard input does.
import { appendFileSync } from 'node:fs';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const [witness] = process.argv.slice(2);
const tools = {
  quick: 'answers at once',
  slow: 'answers in a minute',
  ['long_' + 'n'.repeat(85)]: 'has a name of ninety characters',
  'größe_日本語': 'is named by a size',
  'grüße_日本語': 'is named by a greeting',
};

const server = new Server({ name: 'e2e', version: '1' }, { capabilities: { tools: {} } });
server.setRequestHandler(ListToolsRequestSchema, () => ({
  tools: Object.entries(tools).map(([name, description]) => ({ name, description, inputSchema: { type: 'object', properties: {} } })),
}));
server.setRequestHandler(CallToolRequestSchema, async ({ params: { name } }) => {
  appendFileSync(witness, `${name} ${process.pid}\n`);
  if (name === 'slow') await new Promise((resolve) => setTimeout(resolve, 60_000));
  return { content: [{ type: 'text', text: `called as ${name}` }] };
});
await server.connect(new StdioServerTransport());
setInterval(() => {}, 60_000);
