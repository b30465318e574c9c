// A client by the TypeScript SDK, version 1 or 2, whichever package is there.
//
//   node client.mjs COMMAND ARGS...
//
// starts the command as a server, lists its tools, calls demo__echo, and prints
// {"tools": [names], "text"}.
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

// Version 1 knows no such option and ignores it.
const client = new Client({ name: 'e2e', version: '1' }, { versionNegotiation: { mode: 'auto' } });
await client.connect(new StdioClientTransport({ command, args }));
const { tools } = await client.listTools();
const { content } = await client.callTool({ name: 'demo__echo', arguments: { message: 'from the SDK' } });
console.log(JSON.stringify({ tools: tools.map(({ name }) => name), text: content[0].text }));
await client.close();
