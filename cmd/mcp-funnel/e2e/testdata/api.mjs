// A scripted stand-in for the model behind Claude Code: it speaks as much of the
// Anthropic Messages API as Claude Code needs to make tool calls, on loopback only.
//
//   node api.mjs SCRIPT LOG GATES
//
// prints its URL and serves until standard input ends. SCRIPT is a JSON list with one
// step for each turn of the model:
//
//   {"call": {"name": "mcp__funnel__demo__echo"}, "input": {...}}   call that tool
//   {"call": {"about": "words"}, "input": {...}}   call the offered tool whose
//                                                  description has these words
//   {..., "gate": "NAME"}   answer only when the file GATES/NAME exists
//
// After the last step the model says "done". LOG gets one JSON line a turn, before the
// answer: {"tools": [{"name", "description"}], "results": [{"text", "error"}]}, where
// results are those of the calls of the turn before.
import { createServer } from 'node:http';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const [script, log, gates] = process.argv.slice(2);
const steps = JSON.parse(readFileSync(script, 'utf8'));
let turns = 0;
let ids = 0;

const textOf = (content) =>
  typeof content === 'string' ? content : (content ?? []).map((block) => block.text ?? '').join('');

// The results of tools that the newest message brings.
function results(messages) {
  const content = messages.at(-1)?.content;
  if (!Array.isArray(content)) return [];
  return content
    .filter((block) => block.type === 'tool_result')
    .map((block) => ({ text: textOf(block.content), error: block.is_error === true }));
}

function pick({ name, about }, tools) {
  return name ?? tools.find((tool) => (tool.description ?? '').includes(about))?.name ?? `no tool is about: ${about}`;
}

async function opened(gate) {
  while (!existsSync(join(gates, gate))) await new Promise((resolve) => setTimeout(resolve, 20));
}

// The content blocks of the model's answer. Questions without tools are Claude Code's
// own errands (a title, say) and use up no step.
async function think({ tools = [], messages = [] }) {
  if (tools.length === 0) return [{ type: 'text', text: 'ok' }];
  const step = steps[turns++];
  const offered = tools.map(({ name, description }) => ({ name, description }));
  appendFileSync(log, JSON.stringify({ tools: offered, results: results(messages) }) + '\n');
  if (step?.gate) await opened(step.gate);
  if (!step) return [{ type: 'text', text: 'done' }];
  return [{ type: 'tool_use', id: `toolu_${++ids}`, name: pick(step.call, tools), input: step.input ?? {} }];
}

function envelope(model, content) {
  return {
    id: `msg_${++ids}`, type: 'message', role: 'assistant', model, content,
    stop_reason: content.some((block) => block.type === 'tool_use') ? 'tool_use' : 'end_turn', stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
  };
}

// The answer as the stream of events that Claude Code asks for.
function* events(message) {
  yield { type: 'message_start', message: { ...message, content: [], stop_reason: null } };
  for (const [index, block] of message.content.entries()) {
    const call = block.type === 'tool_use';
    yield { type: 'content_block_start', index, content_block: call ? { ...block, input: {} } : { ...block, text: '' } };
    yield {
      type: 'content_block_delta', index,
      delta: call ? { type: 'input_json_delta', partial_json: JSON.stringify(block.input) } : { type: 'text_delta', text: block.text },
    };
    yield { type: 'content_block_stop', index };
  }
  yield { type: 'message_delta', delta: { stop_reason: message.stop_reason, stop_sequence: null }, usage: { output_tokens: 1 } };
  yield { type: 'message_stop' };
}

async function answer(request, response) {
  let body = '';
  for await (const chunk of request.setEncoding('utf8')) body += chunk;
  const json = (status, value) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  const { pathname } = new URL(request.url, 'http://localhost');
  if (request.method !== 'POST') return json(request.method === 'HEAD' ? 200 : 404, {});
  if (pathname === '/v1/messages/count_tokens') return json(200, { input_tokens: 1 });
  if (pathname !== '/v1/messages') return json(404, { type: 'error', error: { type: 'not_found_error', message: pathname } });
  const question = JSON.parse(body);
  const message = envelope(question.model, await think(question));
  if (!question.stream) return json(200, message);
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const event of events(message)) response.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  response.end();
}

const server = createServer((request, response) => {
  answer(request, response).catch((error) => {
    console.error(error);
    response.destroy();
  });
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
process.stdin.on('end', () => process.exit(0)).resume();
