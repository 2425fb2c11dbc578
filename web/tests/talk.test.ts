import { describe, expect, it } from "vitest";
import { composerHint, itemsOf, outcomeOf, unheardOf } from "../src/model/talk";
import type { Line, ThreadSheet } from "../src/model/types";
import { line, run, step, thread } from "./given";

const message = (more: Partial<Line> = {}): Line => line(4, "message", { text: "Two are vegetarian", by: "ann", status: "stored", ...more });
const outcome = (given: Line, more: Partial<ThreadSheet> = {}, sheet = run()) => {
  const found = outcomeOf(given, thread({ lines: [given, ...(more.lines ?? [])], todos: more.todos ?? [] }), sheet);
  return found && [`${found.word} ${found.rest}`.trim(), found.back?.label ?? ""];
};

describe("under a message", () => {
  it("stands that it was sent, until somebody reads it", () => {
    expect(outcomeOf(message(), thread({ lines: [message()] }), run())).toMatchObject({ word: "Sent", unread: true });
    expect(outcome(message(), {}, run({ phase: "paused", holds: ["user"] }))).toEqual(["Sent kept until you resume", ""]);
    expect(outcome(message({ status: "read" }))).toEqual(["Read", ""]);
    expect(outcome(message({ status: "withdrawn" }))).toEqual(["Withdrawn", ""]);
  });

  it("stands what was chosen, and the way back from it", () => {
    const steps = [step("a", { started_at: 1 }), step("b", { started_at: 9 })];
    const todo = { todo: 6, kind: "deferred", text: "cake", note: "", run: "", message: 4, now: "", remove: "" };
    expect(outcome(message({ choice: "incorporate", status: "read" }), { lines: [line(5, "choice", { message: 4 })] }, run({ steps }))).toEqual(["Incorporated into step 2", "Undo"]);
    expect(outcome(message({ choice: "incorporate", status: "read" }), { lines: [line(20, "choice", { message: 4 })] }, run({ steps }))).toEqual(["Incorporated at the next safe point", "Undo"]);
    const switched = [line(5, "choice", { message: 4, choice: "switch" }), line(6, "todo: parked", { at: 5 })];
    expect(outcome(message({ choice: "switch" }), { lines: switched, todos: [{ ...todo, kind: "parked", text: "Dinner" }] })).toEqual(["Switched to this now, Dinner parked", "Go back"]);
    expect(outcome(message({ choice: "defer" }), { todos: [todo] })).toEqual(["Deferred to after this", "Do it now"]);
    expect(outcome(message({ choice: "defer" }))).toEqual(["Deferred and taken up since", ""]);
    expect(outcome(message({ choice: "redirect", status: "read" }))).toEqual(["Redirected to this", ""]);
  });

  it("stands the step that began after it, also where only the end of a step is on record", () => {
    const read = (ended: number | null) => step("a", { started_at: null, ended_at: ended });
    const chosen = [line(20, "choice", { at: 120, message: 4 })];
    const into = (...steps: ReturnType<typeof step>[]) => outcome(message({ choice: "incorporate" }), { lines: chosen }, run({ steps }))?.[0];

    expect(into(read(130), read(140))).toBe("Incorporated into step 2");
    expect(into(read(130), read(null))).toBe("Incorporated into step 2");
    expect(into(read(null), read(null))).toBe("Incorporated at the next safe point");
  });

  it("stands what was parked for it, not for another message", () => {
    const todo = { kind: "parked", note: "", run: "", message: 0, now: "", remove: "" };
    const todos = [{ ...todo, todo: 6, text: "Dinner" }, { ...todo, todo: 16, text: "Lunch" }];
    const lines = [
      line(5, "choice", { message: 4, choice: "switch" }), line(6, "todo: parked", { at: 5 }),
      line(15, "choice", { message: 14, choice: "switch" }), line(16, "todo: parked", { at: 15 }),
    ];
    const second = message({ position: 14, choice: "switch" });

    expect(outcome(message({ choice: "switch" }), { lines, todos })).toEqual(["Switched to this now, Dinner parked", "Go back"]);
    expect(outcome(second, { lines, todos })).toEqual(["Switched to this now, Lunch parked", "Go back"]);
    expect(outcome(message({ choice: "switch" }), { lines, todos: todos.slice(1) })).toEqual(["Switched to this now", ""]);
  });

  it("is taken out by withdrawing it, as long as nobody has read it", () => {
    const chosen = message({ choice: "incorporate" });
    expect(outcomeOf(chosen, thread({ lines: [chosen] }), run())?.back?.choice).toBe("withdraw");
    expect(outcomeOf({ ...chosen, status: "read" }, thread({ lines: [chosen] }), run())?.back?.choice).toBe("undo");
  });

  it("stands what the person has wanted instead, once they have", () => {
    expect(outcome(message({ choice: "incorporate" }), { lines: [line(5, "choice", { message: 4 }), line(6, "overruled", { message: 4, choice: "undo" })] })).toEqual(["Taken out again", ""]);
  });
});

describe("the thread", () => {
  it("begins with the brief, unless a message said it, and keeps changes in their place", () => {
    const change = { at: 120, by: "ann", was: "Find a table", now: "Find a room", applied: true };
    const given = thread({ lines: [line(4, "message", { at: 110, text: "Hello" }), line(5, "said: text", { at: 130, text: "Yes", said: "text" })] });

    expect(itemsOf(given, run({ brief: "Find a room", changes: [change] })).map((item) => item.kind)).toEqual(["brief", "message", "change", "said"]);
    expect(itemsOf(thread({ lines: [line(4, "message", { text: "Find a table" })] }), run()).map((item) => item.kind)).toEqual(["message"]);
  });
});

describe("under what was spoken aloud", () => {
  it("stands that no more of it was heard, also under work that was kept of it", () => {
    expect(unheardOf(line(4, "said: text", { text: "One two", status: "cut short" }))).toBe("Cut short: no more of it was heard");
    expect(unheardOf(line(5, "said: partial", { text: "One two three", status: "not heard" }))).toBe("Not all of this was heard: it was cut short while it spoke");
  });

  it("stands nothing where all of it was heard, or nothing was spoken", () => {
    expect(unheardOf(line(4, "said: text", { text: "One two" }))).toBe("");
    expect(unheardOf(line(5, "said: partial", { text: "Two drafts" }))).toBe("");
  });
});

describe("the hint beside the composer", () => {
  it("says what the server says, and where no agent answers that nobody does", () => {
    const reads = (given: Parameters<typeof run>[0], hosted: boolean) => composerHint(run({ ...given, bar: { ...run().bar, reads: "starts the next run" } }), hosted);

    expect(reads({ phase: "done" }, true)).toBe("Starts the next run");
    expect(reads({ phase: "done" }, false)).toBe("Nobody reads it until a run starts");
    expect(reads({}, false)).toBe("Starts the next run");
  });
});
