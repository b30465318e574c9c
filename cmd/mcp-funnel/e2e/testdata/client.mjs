// A client by the TypeScript SDK, version 1 or 2, whichever package is there.
//
//   node client.mjs COMMAND ARGS...
//
// starts the command as a server, lists its tools, calls demo__echo, and uses go-sdk's
// server for everything: gets a prompt, reads a resource, and answers the question of a
// tool. It prints {"tools": [names], "text", "prompt", "resource", "elicited"}.
const [command, ...args] = process.argv.slice(2);

async function first(...packages) {
  for (const name of packages) {
    try {
      return await import(name);
    } catch (error) {
      if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
    }
  }
  throw new Error(`none of ${packages.join(', ')} is there`);
}

const { Client } = await first('@modelcontextprotocol/client', '@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = await first('@modelcontextprotocol/client/stdio', '@modelcontextprotocol/sdk/client/stdio.js');
// Version 2 knows requests by their names, version 1 by their schemas.
const { ElicitRequestSchema } = await import('@modelcontextprotocol/sdk/types.js').catch(() => ({}));

// Version 1 knows no such option and ignores it.
const options = { capabilities: { elicitation: {} }, versionNegotiation: { mode: 'auto' } };
const client = new Client({ name: 'e2e', version: '1' }, options);
client.setRequestHandler(ElicitRequestSchema ?? 'elicitation/create', () => ({ action: 'accept', content: { username: 'e2e' } }));
await client.connect(new StdioClientTransport({ command, args }));
const call = async (name, message) => (await client.callTool({ name, arguments: { message } })).content[0].text;
const { tools } = await client.listTools();
const { messages } = await client.getPrompt({ name: 'peer__test_simple_prompt' });
const { contents } = await client.readResource({ uri: 'test://static-text' });
console.log(JSON.stringify({
  tools: tools.map(({ name }) => name),
  text: await call('demo__echo', 'from the SDK'),
  prompt: messages[0].content.text,
  resource: contents[0].text,
  elicited: await call('peer__test_elicitation', 'who?'),
}));
await client.close();
