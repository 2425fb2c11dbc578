// Stories of what clients send: approvals in the words of the protocol's guide, answers that do not fit, a thread that is
// followed across pauses, a client that leaves, and a conversation that a client has cut or changed.

import assert from "node:assert/strict";
import {
  answer, bob, client, complaints, eventsOf, fresh, letGo, pause, post, receipts, run, runsOf, texts, url, user,
} from "./client.mjs";

const { HttpAgent } = await import(process.env.AGUI_CLIENT ?? "@ag-ui/client");
const runOf = (events) => events.find((e) => e.type === "STATE_SNAPSHOT").snapshot.run;
const warnings = (told) => told.of("CUSTOM").filter((e) => e.name === "midflight:warning").map((e) => e.value);

/** What the approve and deny buttons of @assistant-ui/react-ag-ui 0.0.58 want of a schema before they are drawn. */
function drawsButtons(interrupt) {
  const allowed = new Set(["$schema", "$id", "title", "description", "type", "required", "properties"]);
  const schema = interrupt.responseSchema;
  const plain = (one, type) => Object.entries(one).every(([key, value]) => (key === "type" ? value === type : key === "description"));
  return (
    interrupt.reason === "tool_call" &&
    Boolean(interrupt.toolCallId) &&
    Object.keys(schema).every((key) => allowed.has(key)) &&
    schema.type === "object" &&
    schema.required.every((one) => one === "approved") &&
    plain(schema.properties.approved, "boolean") &&
    plain(schema.properties.reason, "string") &&
    schema.properties.editedArgs.type === "object"
  );
}

async function pausedRun(agent = "held") {
  const http = client(agent, { messages: [user("count")] });
  let pressed;
  const told = await run(http, {}, (event, events) => {
    if (event.type === "TEXT_MESSAGE_CONTENT" && !pressed) pressed = bob("pause", runOf(events));
  });
  await pressed;
  return { http, paused: told.outcome.interrupts[0], ours: runOf(told.events) };
}

/** Wait for something, within bounds. */
async function until(what, found) {
  for (const began = Date.now(); Date.now() - began < 20_000; await pause(20)) {
    const value = await found();
    if (value) return value;
  }
  assert.fail(`${what} did not come`);
}

export const requests = {
  // ── approvals ──────────────────────────────────────────────────────────────────────────────

  async an_approval_asks_as_the_guide_does() {
    const http = client("biller", { messages: [user("bill them")] });
    const { outcome } = await run(http);
    const [asked] = outcome.interrupts;
    assert.ok(drawsButtons(asked), JSON.stringify(asked));
    assert.match(asked.message, /invoice 100/);
    assert.deepEqual(Object.keys(asked.responseSchema.properties.editedArgs.properties), ["amount"]);
    assert.deepEqual(asked.metadata.details, { args: [], kwargs: { amount: 100 } });
    assert.match(asked.metadata.tool, /send_invoice$/);
  },

  async an_approval_takes_what_the_guide_shows() {
    const takes = [
      [{ approved: true }, "sent an invoice over 100"],
      [{ approved: true, editedArgs: { amount: 80 } }, "sent an invoice over 80"],
      [{ approved: true, editedArgs: null, reason: null }, "sent an invoice over 100"],
      [{ approved: false }, /rejected by ann/],
      [{ approved: false, reason: "too dear" }, /ann says: too dear/],
      [{ approved: false, reason: "", editedArgs: { amount: 1 } }, /rejected by ann/],
      ["approve", "sent an invoice over 100"],
      [{ edit: { args: [], kwargs: { amount: 70 } } }, "sent an invoice over 70"],
      [{ respond: "later" }, /ann says: later/],
    ];
    await Promise.all(takes.map(async ([payload, wanted]) => {
      const http = client("biller", { messages: [user("bill them")] });
      const { outcome } = await run(http);
      const { last } = await run(http, { resume: answer(outcome.interrupts[0], payload) });
      const said = last.type === "RUN_ERROR" ? last.message : last.result;
      if (typeof wanted === "string") assert.equal(said, wanted, JSON.stringify(payload));
      else assert.match(said, wanted, JSON.stringify(payload));
    }));
  },

  async a_reason_beside_an_approval_is_named_as_not_kept() {
    const http = client("biller", { messages: [user("bill them")] });
    const { outcome } = await run(http);
    const told = await run(http, { resume: answer(outcome.interrupts[0], { approved: true, reason: "fine" }) });
    assert.equal(told.last.result, "sent an invoice over 100");
    assert.match(warnings(told).join(), /reason.*not kept/);
  },

  async a_confirmation_takes_yes_and_no() {
    for (const [payload, said] of [[true, "approve"], [false, "reject"], [{ approved: true, editedArgs: [1] }, "edit [1]"], [{ approved: false, reason: "later" }, "respond later"]]) {
      const http = client("careful", { messages: [user("go")] });
      const { outcome } = await run(http);
      assert.equal(outcome.interrupts[0].reason, "confirmation");
      assert.deepEqual(outcome.interrupts[0].responseSchema.required, ["approved"]);
      assert.equal((await run(http, { resume: answer(outcome.interrupts[0], payload) })).last.result, said);
    }
  },

  // ── answers that do not fit ────────────────────────────────────────────────────────────────

  async an_answer_that_does_not_fit_brings_the_card_again() {
    const http = client("asker", { messages: [user("a shirt")] });
    const { outcome } = await run(http);
    const [asked] = outcome.interrupts;
    const told = await run(http, { resume: answer(asked, { size: "huge" }) });
    assert.equal(told.outcome.type, "interrupt");
    const [again] = told.outcome.interrupts;
    assert.equal(again.id, asked.id);
    assert.deepEqual(again.responseSchema, asked.responseSchema);
    assert.ok(again.message.startsWith(asked.message), again.message);
    assert.match(again.message, /not taken.*huge/s);
    assert.deepEqual([receipts(told)[0].status, receipts(told)[0].interruptId], ["refused", asked.id]);
    assert.equal(http.pendingInterrupts.length, 1, "it can be answered still");
    assert.equal((await run(http, { resume: answer(asked, { size: "small" }) })).last.result, "small for ann");
  },

  async answers_of_every_wrong_kind_bring_the_card_again() {
    const http = client("biller", { messages: [user("bill them")] });
    const { outcome } = await run(http);
    const [asked] = outcome.interrupts;
    const wrong = [
      answer(asked, "maybe"), answer(asked, 7), answer(asked), answer(asked, { approved: "yes" }),
      answer(asked, { approved: true, editedArgs: [80] }), answer(asked, { approved: true, editedArgs: { sum: 80 } }),
      answer(asked, { approved: true, editedArgs: { amount: { $secret: "PATH" } } }), answer(asked, { approved: true, condition: "only today" }),
      answer(asked, { approved: false, reason: 7 }), [...answer(asked, "approve"), ...answer(asked, "reject")],
      [{ interruptId: asked.id, status: "maybe" }], [{ interruptId: asked.id }], [{ status: "resolved" }], [7],
    ];
    for (const resume of wrong) {
      const body = { threadId: http.threadId, runId: fresh("run"), messages: [], resume };
      const response = await post("biller", body);
      assert.equal(response.status, 200, JSON.stringify(resume));
      const { outcome: again } = (await eventsOf(response)).at(-1);
      assert.equal(again.interrupts[0].id, asked.id, JSON.stringify(resume));
      assert.match(again.interrupts[0].message, /not taken/, JSON.stringify(resume));
    }
    assert.deepEqual((await runsOf(http.threadId)).map((one) => one.phase), ["waiting"]);
  },

  async one_answer_that_does_not_fit_stops_all_of_them() {
    const http = client("twice", { messages: [user("deliver")] });
    const { outcome } = await run(http);
    const [one, other] = outcome.interrupts;
    const told = await run(http, { resume: [...answer(one, "Ann"), ...answer(other, 7)] });
    assert.deepEqual(told.outcome.interrupts.map((open) => open.id).sort(), [one.id, other.id].sort());
    assert.deepEqual(receipts(told).map((told) => told.status), ["refused", "refused"]);
  },

  async an_unknown_id_alone_brings_the_open_card_and_says_why() {
    const http = client("asker", { messages: [user("a shirt")] });
    const { outcome } = await run(http);
    const other = client("asker", { threadId: http.threadId });
    const told = await run(other, { resume: [{ interruptId: "r-nobody:7", status: "resolved", payload: { size: "small" } }] });
    assert.deepEqual(told.outcome.interrupts.map((one) => one.id), [outcome.interrupts[0].id]);
    assert.match(told.outcome.interrupts[0].message, /no such interrupt/);
  },

  async who_may_not_answer_keeps_the_card() {
    const http = client("choosy", { messages: [user("go")] });
    const { outcome } = await run(http);
    const told = await run(http, { resume: answer(outcome.interrupts[0], "yes") });
    assert.equal(told.outcome.interrupts[0].id, outcome.interrupts[0].id);
    assert.match(told.outcome.interrupts[0].message, /not taken.*carol/s);
  },

  // ── a thread that is followed ──────────────────────────────────────────────────────────────

  async a_paused_run_is_cancelled_through_its_interrupt() {
    const { http, paused } = await pausedRun();
    const told = await run(http, { resume: answer(paused, { action: "cancel" }) });
    assert.deepEqual(told.outcome, { type: "cancelled" });
    assert.deepEqual((await runsOf(http.threadId)).map((one) => one.phase), ["cancelled"]);
    const again = await run(client("held", { threadId: http.threadId }), { resume: answer(paused, { action: "cancel" }) });
    assert.deepEqual([receipts(again)[0].status, receipts(again)[0].why], ["accepted", "given before"]);
  },

  async a_thread_is_followed_through_a_pause_a_resume_and_the_next_run() {
    const { http, ours } = await pausedRun();
    const watcher = follower("held", http.threadId);
    const following = watcher.follow();
    await until("the pause", () => watcher.ends.at(-1)?.type === "interrupt");
    assert.equal(watcher.pendingInterrupts.length, 1);
    await letGo(ours);
    await bob("resume", ours);
    await until("the end", () => watcher.ends.at(-1)?.type === "success");
    assert.equal(watcher.pendingInterrupts.length, 0);
    const other = client("held", { threadId: http.threadId, messages: [user("again")] });
    let next;
    const told = run(other, {}, (event, events) => {
      if (event.type === "TEXT_MESSAGE_CONTENT") next ??= letGo(runOf(events));
    });
    await until("the next run", () => watcher.ends.length === 3);
    await told;
    assert.deepEqual(watcher.ends.map((end) => end.type), ["interrupt", "success", "success"]);
    assert.equal(new Set(watcher.runIds).size, 3, "each AG-UI run has an id of its own");
    assert.deepEqual(texts(watcher, "user"), ["count", "again"]);
    assert.equal(watcher.state.phase, "done");
    watcher.abortRun();
    await following;
    assert.equal((await runsOf(http.threadId)).length, 2, "who follows begins nothing");
  },

  async a_follower_hears_that_a_paused_run_was_cancelled_elsewhere() {
    const { http, ours } = await pausedRun();
    const watcher = follower("held", http.threadId, "vera");
    const following = watcher.follow();
    await until("the pause", () => watcher.ends.at(-1)?.type === "interrupt");
    await bob("cancel", ours);
    await until("the cancel", () => watcher.ends.at(-1)?.type === "cancelled");
    watcher.abortRun();
    await following;
  },

  async a_follower_of_an_empty_thread_sees_its_first_run() {
    const threadId = fresh("thread");
    const watcher = follower("plain", threadId);
    const following = watcher.follow();
    await until("the empty thread", () => watcher.ends.length === 1);
    await run(client("plain", { threadId, messages: [user("tea")] }));
    await until("the run", () => watcher.ends.length === 2);
    assert.deepEqual(texts(watcher, "user"), ["tea"]);
    watcher.abortRun();
    await following;
  },

  async a_follower_is_not_told_of_a_failure_twice() {
    const http = client("failing", { messages: [user("go")] });
    await run(http);
    const watcher = follower("failing", http.threadId, "vera");
    const following = watcher.follow();
    await until("how it stands", () => watcher.ends.length === 1);
    assert.deepEqual(watcher.ends, [{ type: "success" }], "nothing is to be done");
    http.addMessage(user("again"));
    await run(http);
    await until("the failure", () => watcher.failures.length === 1);
    await bob("send", (await runsOf(http.threadId))[0].run, "hm");
    await until("the message", () => watcher.ends.length === 2);
    assert.deepEqual(watcher.failures, ["failed"]);
    watcher.abortRun();
    await following;
  },

  async options_that_are_none_are_refused_in_words() {
    const base = { threadId: fresh("thread"), runId: fresh("run"), messages: [user("tea")] };
    for (const midflight of [7, { follow: "yes" }, { onDisconnect: "explode" }, { onDisconnect: 1 }]) {
      const refused = await post("plain", { ...base, forwardedProps: { midflight } });
      assert.equal(refused.status, 400, JSON.stringify(midflight));
      assert.match((await refused.json()).message, /forwardedProps\.midflight.*Nothing was changed/s);
    }
    assert.deepEqual(await runsOf(base.threadId), []);
    const odd = await eventsOf(await post("plain", { ...base, forwardedProps: { midflight: { folow: true }, other: 1 } }));
    assert.match(odd.find((e) => e.name === "midflight:warning").value, /folow/);
  },

  // ── a conversation that was cut or changed ─────────────────────────────────────────────────

  async a_message_that_is_edited_in_place_is_refused_in_words() {
    const http = await talked("tea", "milk");
    const [first, ...rest] = http.messages;
    http.setMessages([{ ...first, content: "coffee" }, ...rest, user("sugar")]);
    await refused(http, /was changed/, ["tea", "milk"]);
  },

  async a_message_that_is_edited_as_a_new_one_is_refused_in_words() {
    const http = await talked("tea", "milk");
    const second = http.messages.findIndex((m) => m.content === "milk");
    http.setMessages([...http.messages.slice(0, second), user("cream")]);
    await refused(http, /left out/, ["tea", "milk"]);
    http.addMessage(user("cream"));
    assert.equal((await run(http)).outcome.type, "success", "at the end it can be said");
    assert.deepEqual(texts(http, "user"), ["tea", "milk", "cream"]);
  },

  async the_first_message_edited_as_a_new_one_is_refused_in_words() {
    const http = await talked("tea");
    http.setMessages([user("coffee")]);
    await refused(http, /left out/, ["tea"]);
  },

  async an_answer_is_not_made_again_silently() {
    const http = await talked("tea", "milk");
    const second = http.messages.findIndex((m) => m.content === "milk");
    http.setMessages(http.messages.slice(0, second + 1));
    await refused(http, /another answer.*fork/s, ["tea", "milk"]);
    http.setMessages(http.messages.slice(0, 1));
    await refused(http, /another answer.*fork/s, ["tea", "milk"]);
  },

  async messages_in_another_order_keep_the_order_in_which_they_were_said() {
    const http = await talked("tea", "milk");
    http.setMessages([...http.messages.filter((m) => m.role === "user").reverse(), user("sugar")]);
    const told = await run(http);
    assert.match(warnings(told).join(), /another order/);
    const look = client("plain", { threadId: http.threadId });
    await run(look);
    assert.deepEqual(texts(look, "user"), ["tea", "milk", "sugar"]);
  },

  async a_cut_conversation_is_refused_while_its_run_is_at_work_too() {
    const { http, ours } = await pausedRun();
    const other = client("held", { threadId: http.threadId });
    other.state = http.state;
    other.setMessages([user("count backwards")]);
    await refused(other, /left out/, ["count"]);
    assert.equal(other.state.unread, 0, "it was not told to the run");
    await bob("cancel", ours);
  },

  async who_has_no_history_or_an_old_one_may_still_say_something() {
    const http = await talked("tea");
    const kept = { messages: http.messages, state: http.state };
    const other = client("plain", { threadId: http.threadId, messages: [user("milk")] });
    const told = await run(other);
    assert.equal(told.outcome.type, "success");
    assert.match(warnings(told).join(), /added at the end/);
    const stale = client("plain", { threadId: http.threadId, messages: [...kept.messages, user("sugar")] });
    stale.state = kept.state;
    assert.equal((await run(stale)).outcome.type, "success", "what it had not seen it did not leave out");
    assert.deepEqual(texts(stale, "user").sort(), ["milk", "sugar", "tea"]);
    stale.addMessage(user("honey"));
    assert.equal((await run(stale)).outcome.type, "success", "and so it goes on, in the order that it shows");
    const looks = client("plain", { threadId: http.threadId, messages: kept.messages });
    looks.state = kept.state;
    assert.equal((await run(looks)).outcome.type, "success", "to look is not to cut");
  },
};

/** A thread in which each of these was said and answered. */
async function talked(...said) {
  const http = client("plain", { messages: [] });
  for (const words of said) {
    http.addMessage(user(words));
    assert.equal((await run(http)).outcome.type, "success");
  }
  return http;
}

/** The request is refused, nothing was changed, and the client shows the thread as it is again. */
async function refused(http, words, said) {
  const before = await runsOf(http.threadId);
  const told = await run(http);
  assert.deepEqual([told.last.type, told.last.code], ["RUN_ERROR", "history_changed"]);
  assert.match(told.last.message, words);
  assert.match(told.last.message, /Nothing was changed\.$/);
  assert.deepEqual(texts(http, "user"), said);
  assert.deepEqual(await runsOf(http.threadId), before);
}

/** What docs/agui.md shows for following: `connectAgent` of the stock client, over the same route. */
class Follower extends HttpAgent {
  connect(input) {
    const midflight = { ...input.forwardedProps?.midflight, follow: true };
    return this.run({ ...input, messages: [], forwardedProps: { ...input.forwardedProps, midflight } });
  }
}

function follower(agent, threadId, name = "ann") {
  const http = new Follower({ url: `${url}/v1/agents/${agent}/agui`, threadId, headers: { "x-name": name } });
  const runIds = [], ends = [], failures = [];
  const follow = () =>
    http.connectAgent({}, {
      onRunStartedEvent: ({ event }) => void runIds.push(event.runId),
      onRunFinishedEvent: ({ event }) => void ends.push(event.outcome),
      onRunErrorEvent: ({ event }) => void failures.push(event.code),
    });
  return Object.assign(http, { follow, runIds, ends, failures });
}
