import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import { barOf, type Bar, type Seen } from "../src/model/bar";
import { looksOfChild, PHASES } from "../src/model/phases";
import type { Offered, Phase, RunSheet } from "../src/model/types";
import { Icon } from "../src/ui/Icon";
import { run, slot, thread } from "./given";

const seen = (more: Partial<Seen> = {}): Seen => ({ connection: "live", now: 160, operator: false, ...more });
const TURN = [slot("redirect"), slot("cancel")];

/** The bar of a run of which the server has said that much. */
function drawn(slots: Offered[], given: Partial<RunSheet> = {}, more: Partial<Seen> = {}): Bar {
  const sheet = run(given);
  return barOf({ ...sheet, bar: { looks: sheet.phase, word: PHASES[sheet.phase].word, detail: "", menu: [], away: "", reads: "", ...given.bar, slots } }, seen(more));
}
const labels = (...given: Parameters<typeof drawn>): string[] => drawn(...given).slots.map((each) => each.label);

describe("the bar", () => {
  it("says what the server says of the run and of each press, in the server's order", () => {
    const slots = [slot("pause"), slot("redirect"), slot("cancel", { consequence: "Undoes 20 tasks, saves the draft memo", confirm: "Email is being sent. Cancel anyway?" })];
    const bar = drawn(slots, { bar: { ...run().bar, word: "Running", detail: "Check\n the list" } });

    expect(bar).toMatchObject({ word: "Running", detail: "Check the list", tone: "run" });
    expect(bar.slots).toMatchObject(slots);
  });

  it("gives each press its act, its sign and its key", () => {
    expect(drawn([slot("pause"), ...TURN]).slots).toMatchObject([
      { act: { do: "verb", verb: "pause" }, glyph: "pause", keys: "Esc", filled: false },
      { act: { do: "layer", layer: "redirect" }, glyph: "redirect", keys: "Ctrl E" },
      { act: { do: "verb", verb: "cancel" }, glyph: "cancel", keys: "Ctrl .", danger: true },
    ]);
  });

  it("fills what lets a run go on that rests", () => {
    const first = (verb: string, given: Partial<RunSheet>) => drawn([slot(verb), ...TURN], given).slots[0];

    expect(first("resume", { phase: "paused", holds: ["user"] })).toMatchObject({ filled: true, act: { verb: "resume" } });
    expect(first("raise limits", { phase: "paused", holds: ["cap"] })).toMatchObject({ filled: true, act: { layer: "raise" } });
    expect(first("hand back", { phase: "paused", holds: ["human"] })).toMatchObject({ filled: true, act: { layer: "hand back" } });
    expect(first("answer", { phase: "waiting" })).toMatchObject({ filled: true, act: { do: "review" } });
    expect(first("resume", { phase: "pausing", holds: ["user"] })).toMatchObject({ filled: false });
  });

  it("counts the time that is left for a decision", () => {
    const review = slot("answer", { consequence: "One decision", expires_at: 1000 });

    expect(drawn([review, ...TURN], { phase: "waiting" }).slots[0]?.consequence).toBe("One decision, 14 min left");
  });

  it("offers to stop now only when undoing had its five seconds", () => {
    const slots = [slot("pause", { enabled: false }), slot("redirect", { enabled: false }), slot("cancel", { opens_at: 163 })];

    expect(drawn(slots, { phase: "cancelling" }).slots[2]).toMatchObject({ enabled: false, consequence: "Undoing first, offered in 3 s" });
    expect(drawn(slots, { phase: "cancelling" }, { now: 120 }).slots[2]).toMatchObject({ consequence: "Undoing first, offered in 5 s" });
    expect(drawn(slots, { phase: "cancelling" }, { now: 164 }).slots[2]).toMatchObject({ enabled: true, act: { body: { now: true } } });
  });

  it("brings a parked run back through its to-do", () => {
    const todo = { todo: 12, kind: "parked", text: "", note: "Plan: …", run: "r-1", message: 0, now: "Comes back now", remove: "" };
    const parked = (...holds: RunSheet["holds"]) => drawn([slot("resume"), ...TURN], { phase: "paused", holds }, { thread: thread({ todos: [todo] }) }).slots[0];

    expect(parked("parked")).toMatchObject({ label: "Bring back", consequence: "Comes back now", act: { do: "bring back", todo: 12 } });
    expect(parked("parked", "user")).toMatchObject({ label: "Resume" });
  });
});

describe("the ten states", () => {
  const phases = Object.keys(PHASES) as Phase[];
  const differ = (looks: string[]) => expect(new Set(looks).size, looks.join(", ")).toBe(10);

  it("differ in their sign as in their word, in the bar and in the list, for who sees no colour", () => {
    const bars = phases.map((phase) => drawn([], { phase }));
    differ(bars.map((bar) => bar.glyph));
    differ(Object.values(PHASES).map((looks) => looks.word));
    expect(bars.map((bar) => [bar.glyph, bar.word])).toEqual(Object.values(PHASES).map((looks) => [looks.sign, looks.word]));
  });

  it("have signs that are drawn differently", () => {
    differ(phases.map((phase) => renderToStaticMarkup(createElement(Icon, { name: PHASES[phase].sign })).replace(/class="[^"]*"/, "")));
  });

  it("are joined by a run that nobody drives, and by one that a person has", () => {
    const looks = (given: string) => drawn([], { bar: { ...run().bar, looks: given } });

    expect(looks("undriven")).toMatchObject({ glyph: "undriven", tone: "bad" });
    expect(looks("human")).toMatchObject({ glyph: "hand", tone: "warn" });
  });

  it("have a word for a run in the background that was deleted", () => {
    expect(looksOfChild({ run: "r-2", title: "Watch", phase: "purged", started_at: 1, ended_at: 2, status: "" }).word).toBe("Deleted");
  });
});

const ASKS = "Sent when back; asks after 30 s";
const lost = (first: Offered, given: Partial<RunSheet> = {}) => drawn([first, ...TURN], { ...given, bar: { ...run().bar, away: "The agent keeps running" } }, { connection: "lost" });

describe("while the line is lost", () => {
  it("a pause waits for it, and what costs something asks once it is old", () => {
    const bar = lost(slot("pause"));

    expect(bar).toMatchObject({ word: "Reconnecting", detail: "The agent keeps running", glyph: "lost", tone: "calm" });
    expect(bar.slots.map((each) => each.consequence)).toEqual(["Sent when back online", ASKS, ASKS]);
  });

  it("a question can still be looked at, and what needs the server at once is off and says so", () => {
    const review = slot("answer", { label: "Review", consequence: "One decision", expires_at: 1000 });

    expect(lost(review, { phase: "waiting" }).slots[0]).toMatchObject({ label: "Review", consequence: "One decision, 14 min left", enabled: true });
    expect(lost(slot("raise limits"), { phase: "paused", holds: ["cap"] }).slots[0]).toMatchObject({ act: { layer: "raise" }, enabled: false, consequence: "When back online" });
    expect(lost(slot("hand back"), { phase: "paused", holds: ["human"] }).slots[0]).toMatchObject({ act: { layer: "hand back" }, enabled: false });
  });

  it("a resume says that it asks, too", () => {
    expect(lost(slot("resume"), { phase: "paused", holds: ["user"] }).slots[0]).toMatchObject({ label: "Resume", consequence: ASKS, enabled: true });
  });
});

describe("after the end", () => {
  const off = { enabled: false };

  it("offers to start again from where the server says, and hides what cannot be done", () => {
    const from = { position: 6, number: 2, name: "Hold" };

    expect(drawn([slot("fork"), slot("start"), slot("undo", off)], { phase: "cancelled", fork_from: from }).slots).toMatchObject([
      { verb: "fork", act: { do: "fork", at: 6 } }, { verb: "start", act: { do: "new run" } },
    ]);
    expect(labels([slot("fork", off), slot("start"), slot("undo", off)], { phase: "cancelled", fork_from: null })).toEqual(["Start"]);
  });

  it("rewrites the brief of one that has failed, or closes it", () => {
    expect(drawn([slot("fork"), slot("rewrite"), slot("close", { role: "viewer" })], { phase: "failed" }).slots.map((each) => each.act)).toEqual([
      { do: "fork", at: 1 }, { do: "layer", layer: "fork" }, { do: "close" },
    ]);
  });

  it("starts another with the same agent", () => {
    expect(drawn([slot("start")], { phase: "done", agent: "report" }).slots[0]!.act).toEqual({ do: "new run", agent: "report" });
    expect(drawn([slot("start")], { phase: "killed" }).slots[0]!.act).toEqual({ do: "new run" });
  });

  it("offers to an operator alone the way back from a kill, and tells when it was", () => {
    const slots = [slot("start"), slot("recover", { role: "operator" }), slot("undo", off)];
    const killed: Partial<RunSheet> = { phase: "killed", ended_at: 0, bar: { ...run().bar, detail: "Ana" } };

    expect(labels(slots, killed)).toEqual(["Start"]);
    expect(labels(slots, killed, { operator: true })).toEqual(["Start", "Recover"]);
    expect(drawn(slots, killed).detail).toMatch(/^\d\d:\d\d, Ana$/);
  });
});
