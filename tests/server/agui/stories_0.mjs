// Stories of a client of AG-UI 0.x (`@ag-ui/client` 0.0.59, which CopilotKit 1.74 and assistant-ui carry). It sends no
// `protocolVersion`, knows no outcome `cancelled`, and refuses to go on once an interrupt has expired.

import assert from "node:assert/strict";
import { answer, bob, client, pause, run, texts, user } from "./client.mjs";
import { tellAll } from "./telling.mjs";

const runOf = (events) => events.find((e) => e.type === "STATE_SNAPSHOT").snapshot.run;
const cancelled = (story) => story.of("CUSTOM").filter((e) => e.name === "midflight:cancelled").map((e) => e.value);

/** What the agent has said; a read that was stopped is on no record, so it is not shown again. */
const said = (http) => http.messages.filter((m) => m.role === "assistant" && m.content).map((m) => [m.id, m.content]);

/** The thread takes a new message: nothing of what was asked before holds the client back. */
async function goesOn(http, agent = "plain") {
  assert.deepEqual(http.pendingInterrupts, [], "nothing is pending");
  const next = client(agent, { threadId: http.threadId, messages: [...http.messages, user("milk")] });
  next.pendingInterrupts = http.pendingInterrupts;
  const told = await run(next);
  assert.deepEqual([told.last.type, told.outcome], ["RUN_FINISHED", { type: "success" }]);
}

const stories = {
  async a_cancel_in_mid_text_ends_the_stream() {
    const http = client("held", { messages: [user("count")] });
    let pressed;
    const told = await run(http, {}, (event, events) => {
      if (event.type === "TEXT_MESSAGE_CONTENT" && !pressed) pressed = bob("cancel", runOf(events));
    });
    await pressed;
    assert.deepEqual([told.last.type, told.outcome, told.last.result], ["RUN_FINISHED", undefined, undefined]);
    assert.equal(http.state.phase, "cancelled", "the state says the truth");
    assert.deepEqual(cancelled(told), [{ run: runOf(told.events), text: "Cancelled by bob.\n- order tea: kept (no undo)" }]);
    assert.ok(texts(http, "assistant").includes("Cancelled by bob.\n- order tea: kept (no undo)"), "and so does the chat");
    const again = client("held", { threadId: http.threadId });
    await run(again);
    assert.deepEqual(said(again), said(http), "also after a reload");
    await goesOn(http);
  },

  async a_cancel_while_it_asks_leaves_nothing_pending() {
    const http = client("asker", { messages: [user("a shirt")] });
    const first = await run(http);
    await bob("cancel", runOf(first.events));
    const told = await run(http, { resume: answer(first.outcome.interrupts[0], { size: "small" }) });
    assert.deepEqual([told.last.type, told.outcome], ["RUN_FINISHED", undefined]);
    assert.ok(texts(http, "assistant").includes("Cancelled by bob."));
    await goesOn(http);
  },

  async a_failure_after_a_question_leaves_nothing_pending() {
    const http = client("biller", { messages: [user("bill them")] });
    const { outcome } = await run(http);
    const events = [];
    const resume = answer(outcome.interrupts[0], undefined, "cancelled");
    await http.runAgent({ resume }, { onEvent: ({ event }) => void events.push(event) });
    assert.deepEqual(events.slice(-2).map((e) => [e.type, e.outcome]), [["RUN_FINISHED", undefined], ["RUN_ERROR", undefined]]);
    assert.match(events.at(-1).message, /rejected by ann/);
    await goesOn(http);
  },

  async a_question_that_expires_does_not_block_the_thread() {
    const http = client("hurried", { messages: [user("a shirt")] });
    const { outcome } = await run(http);
    const [asked] = outcome.interrupts;
    assert.equal("expiresAt" in asked, false);
    assert.equal(http.state.questions[0].id, asked.id);
    assert.ok(http.state.questions[0].expiresAt, "the state says when");
    await pause(Math.max(0, Date.parse(http.state.questions[0].expiresAt) - Date.now()) + 50);
    const told = await run(http, { resume: answer(asked, { size: "small" }) });
    assert.equal(told.last.result, "too late");
    await goesOn(http);
  },
};

await tellAll(stories);
