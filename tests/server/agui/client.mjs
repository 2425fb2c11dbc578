// What every story needs: the stock client, everything it says, and a look at the raw bytes.

import assert from "node:assert/strict";
const { HttpAgent } = await import(process.env.AGUI_CLIENT ?? "@ag-ui/client");

export const url = process.env.AGUI_URL;
export const complaints = [];
for (const level of ["warn", "error"]) {
  console[level] = (...words) => complaints.push(words.map(String).join(" "));
}
export const unhandled = [];
process.on("unhandledRejection", (reason) => unhandled.push(String(reason)));

/** Every stream that a client has opened. */
export const streams = [];

let count = 0;
export const fresh = (kind) => `${kind}-${process.pid}-${Date.now()}-${++count}`;
export const user = (content, id = fresh("m")) => ({ id, role: "user", content });
export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** A stock client that keeps all events; its fetch also keeps the raw bytes of each answer. */
export function client(agent, { threadId = fresh("thread"), messages = [], name = "ann" } = {}) {
  const raw = [];
  const http = new HttpAgent({
    url: `${url}/v1/agents/${agent}/agui`,
    threadId,
    initialMessages: messages,
    headers: { "x-name": name },
    fetch: async (address, init) => {
      const answer = await fetch(address, init);
      const kept = { status: answer.status, type: answer.headers.get("content-type"), text: "", closed: false };
      raw.push(kept);
      if (answer.status !== 200) return answer;
      const decoder = new TextDecoder();
      const keep = new TransformStream({
        transform(chunk, out) {
          kept.text += decoder.decode(chunk, { stream: true });
          out.enqueue(chunk);
        },
        flush() {
          kept.closed = true;
        },
      });
      const stream = { agent, over: false };
      streams.push(stream);
      const over = () => (stream.over = true);
      answer.body.pipeTo(keep.writable).then(over, over); // also one that was cut or left
      return new Response(keep.readable, { status: 200, headers: answer.headers });
    },
  });
  return Object.assign(http, { raw });
}

/** One run to its end: every event of it, and how it ended. */
export async function run(http, parameters = {}, onEvent = () => {}) {
  const events = [];
  const result = await http.runAgent(parameters, {
    onEvent: ({ event }) => {
      events.push(event);
      onEvent(event, events);
    },
  });
  const last = events.at(-1);
  checkFraming(http.raw.at(-1), events);
  return { events, result, last, outcome: last?.outcome, of: (type) => events.filter((e) => e.type === type) };
}

/** Legal to the last byte: LF only, a terminal event and then the end, snapshots before it. */
function checkFraming(raw, events) {
  assert.equal(raw.status, 200);
  assert.match(raw.type, /^text\/event-stream/);
  assert.ok(!raw.text.includes("\r"), "LF only");
  assert.ok(raw.closed, "the body is closed");
  assert.equal(events[0].type, "RUN_STARTED");
  assert.equal(events[0].protocolVersion, "1.0");
  assert.ok(["RUN_FINISHED", "RUN_ERROR"].includes(events.at(-1).type));
  assert.deepEqual(events.slice(-3, -1).map((e) => e.type), ["STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"]);
  const sent = raw.text.split("\n\n").filter((part) => part.startsWith("data: ")).length;
  assert.equal(sent, events.length, "the client has taken every event");
  for (const event of events.filter((e) => "runId" in e)) assert.equal(event.runId, events[0].runId);
}

/** Somebody else presses something, through another door. */
export async function bob(verb, run, ...args) {
  const answer = await fetch(`${url}/test/${verb}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ run, args }),
  });
  assert.equal(answer.status, 200, await answer.clone().text());
}

/** What `held` waits for. */
export const letGo = (run) => bob("let_go", run);

export const runsOf = async (threadId) => (await fetch(`${url}/test/runs/${threadId}`)).json();
export const texts = (http, role) => http.messages.filter((m) => m.role === role).map((m) => m.content);
export const receipts = (story) => story.of("CUSTOM").filter((e) => e.name === "midflight:receipt").map((e) => e.value);
export const answer = (interrupt, payload, status = "resolved") => [{ interruptId: interrupt.id, status, ...(payload === undefined ? {} : { payload }) }];

/** A raw POST, for what the stock client would never send. */
export const post = (agent, body) =>
  fetch(`${url}/v1/agents/${agent}/agui`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-name": "ann" },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

export const eventsOf = async (response) =>
  (await response.text())
    .split("\n\n")
    .filter((part) => part.startsWith("data: "))
    .map((part) => JSON.parse(part.slice(6)));
