import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import { barOf, type Seen } from "../src/model/bar";
import { looksOfChild, PHASES } from "../src/model/phases";
import type { Phase, RunSheet } from "../src/model/types";
import { Icon } from "../src/ui/Icon";
import { offer, run, thread } from "./given";

const seen = (more: Partial<Seen> = {}): Seen => ({ connection: "live", now: 160, operator: false, ...more });
const labels = (given: Partial<RunSheet>, more: Partial<Seen> = {}): string[] => barOf(run(given), seen(more)).slots.map((slot) => slot.label);
const asks = { question: 7, kind: "question", message: "Who?", schema: null, about: 0, expires_at: 1000, answerers: [], facts: [], cap: "", why: "", verb: "answer", ways: [], skip: "" };

describe("the three slots", () => {
  it("keep their order in every state of a run that lives", () => {
    const states: [Partial<RunSheet>, string][] = [
      [{ phase: "queued" }, "Pause"],
      [{ phase: "running" }, "Pause"],
      [{ phase: "pausing", holds: ["user"] }, "Resume"],
      [{ phase: "paused", holds: ["user"] }, "Resume"],
      [{ phase: "paused", holds: ["cap"] }, "Raise limits"],
      [{ phase: "paused", holds: ["user", "cap"] }, "Resume"],
      [{ phase: "paused", holds: ["human"] }, "Hand back"],
      [{ phase: "waiting", questions: [asks] }, "Review"],
      [{ phase: "cancelling" }, "Pause"],
    ];
    for (const [given, first] of states) expect(labels(given)).toEqual([first, "Redirect", "Cancel"]);
  });

  it("say what the server says that they cost, not what the page thinks", () => {
    const preview = { ...run().preview, cancel: offer("cancel", { consequence: "Undoes 20 tasks, saves the draft memo" }) };

    expect(barOf(run({ preview }), seen()).slots[2]?.consequence).toBe("Undoes 20 tasks, saves the draft memo");
  });

  it("count the decisions and the time that is left for them", () => {
    expect(barOf(run({ phase: "waiting", questions: [asks] }), seen()).slots[0]?.consequence).toBe("One decision, 14 min left");
  });

  it("offer to stop now only when undoing had its five seconds", () => {
    const given: Partial<RunSheet> = { phase: "cancelling", marks: [{ at: 158, kind: "cancel", text: "", by: "" }] };

    expect(barOf(run(given), seen()).slots[2]).toMatchObject({ enabled: false, consequence: "Undoing first, offered in 3 s" });
    expect(barOf(run(given), seen({ now: 164 })).slots[2]).toMatchObject({ enabled: true, act: { body: { now: true } } });
  });

  it("bring a parked run back through its to-do", () => {
    const todo = { todo: 12, kind: "parked", text: "", note: "Plan: …", run: "r-1", message: 0, now: "Comes back now", remove: "" };
    const bar = barOf(run({ phase: "paused", holds: ["parked"], parked_for: "until the cake is found" }), seen({ thread: thread({ todos: [todo] }) }));

    expect(bar).toMatchObject({ word: "Parked", detail: "until the cake is found" });
    expect(bar.slots[0]).toMatchObject({ label: "Bring back", consequence: "Comes back now", act: { do: "bring back", todo: 12 } });
  });
});

describe("the ten states", () => {
  const phases = Object.keys(PHASES) as Phase[];
  const differ = (looks: string[]) => expect(new Set(looks).size, looks.join(", ")).toBe(10);

  it("differ in their sign as in their word, in the bar and in the list, for who sees no colour", () => {
    const bars = phases.map((phase) => barOf(run({ phase }), seen()));
    differ(bars.map((bar) => bar.glyph));
    differ(bars.map((bar) => bar.word));
    differ(Object.values(PHASES).map((looks) => looks.sign));
    differ(Object.values(PHASES).map((looks) => looks.word));
    expect(bars.map((bar) => [bar.glyph, bar.word])).toEqual(Object.values(PHASES).map((looks) => [looks.sign, looks.word]));
  });

  it("have signs that are drawn differently", () => {
    differ(phases.map((phase) => renderToStaticMarkup(createElement(Icon, { name: PHASES[phase].sign })).replace(/class="[^"]*"/, "")));
  });
});

describe("the words of the state", () => {
  const said = (given: Partial<RunSheet>): string => {
    const { word, detail } = barOf(run(given), seen());
    return detail ? `${word}: ${detail}` : word;
  };

  it("name what it does, finishes, waits for or undoes", () => {
    const line = (word: string) => ({ position: 1, noun: "hold", word, why: "", earlier: false, group: "", can_undo: false });
    const flying = { position: 4, name: "Send", noun: "email", effect: "once" as const, irreversible: true, can_be_stopped: false };
    expect(said({})).toBe("Running: Check");
    expect(said({ phase: "pausing", holds: ["user"], in_flight: [flying] })).toBe("Pausing: finishing email");
    expect(said({ phase: "paused", holds: ["user"] })).toBe("Paused: Nothing is running or spending");
    expect(said({ phase: "paused", holds: ["cap"], questions: [{ ...asks, kind: "cap", cap: "usd", why: "the cap of 2 is reached" }] })).toBe("Paused at the cap: $0.42 spent");
    expect(said({ phase: "paused", holds: ["cap"], meters: [{ name: "steps", used: 3, cap: 3 }], questions: [{ ...asks, kind: "cap", cap: "steps", why: "the cap of 3 is reached" }] })).toBe("Paused at the cap: 3 of 3 steps used");
    expect(said({ phase: "paused", holds: ["cap"], questions: [{ ...asks, kind: "cap", cap: "repeats", why: "it goes in circles (twice), also after it was told" }] })).toBe(
      "Paused at the cap: It goes in circles (twice), also after it was told",
    );
    expect(said({ phase: "waiting", questions: [asks] })).toBe("Waiting for you: Who?");
    const receipt = { ...run().receipt, lines: [line("undone"), line("to be undone")] };
    expect(said({ phase: "cancelling", receipt })).toBe("Cancelling: Undoing 2 of 2, saving to thread");
  });

  it("say that nobody drives it, whatever its phase is, and what would let it go on", () => {
    const after = "it goes on when a process with agent demo runs";
    expect(said({ undriven_since: 150 })).toBe(`Nobody drives this: It was running; ${after}`);
    expect(said({ phase: "cancelling", undriven_since: 150 })).toBe(`Nobody drives this: It was cancelling; ${after}`);
  });

  it("say that background work goes on while the run is paused", () => {
    const child = { run: "r-2", title: "Watch", phase: "running", started_at: 1, ended_at: null, status: "" };

    expect(said({ phase: "paused", holds: ["user"], background: [child] })).toBe("Paused: 1 background task still runs");
    expect(said({ phase: "paused", holds: ["user"], background: [{ ...child, phase: "done", ended_at: 2 }] })).toBe("Paused: Nothing is running or spending");
  });

  it("say that nothing goes on if what was in the background has been deleted", () => {
    const gone = { run: "r-2", title: "Watch", phase: "purged", started_at: 1, ended_at: 2, status: "" };

    expect(said({ phase: "paused", holds: ["user"], background: [gone] })).toBe("Paused: Nothing is running or spending");
    expect(looksOfChild(gone).word).toBe("Deleted");
  });
});

const ASKS = "Sent when back; asks after 30 s";

describe("while the line is lost", () => {
  it("a pause waits for it, and what costs something asks once it is old", () => {
    const bar = barOf(run(), seen({ connection: "lost" }));

    expect(bar).toMatchObject({ word: "Reconnecting", detail: "The agent keeps running" });
    expect(bar.slots.map((slot) => slot.consequence)).toEqual(["Sent when back online", ASKS, ASKS]);
  });

  it("says that it keeps running only if it did", () => {
    const last = (given: Partial<RunSheet>) => barOf(run(given), seen({ connection: "lost" })).detail;

    expect(last({ phase: "paused", holds: ["user"] })).toBe("It was paused when the line was lost");
    expect(last({ phase: "waiting", questions: [asks] })).toBe("It waits for you");
    expect(last({ phase: "cancelling" })).toBe("It was cancelling when the line was lost");
  });

  it("a question can still be looked at, and what needs the server at once is off and says so", () => {
    const first = (given: Partial<RunSheet>) => barOf(run(given), seen({ connection: "lost" })).slots[0];

    expect(first({ phase: "waiting", questions: [asks] })).toMatchObject({ label: "Review", consequence: "One decision, 14 min left", enabled: true });
    expect(first({ phase: "paused", holds: ["cap"] })).toMatchObject({ act: { layer: "raise" }, enabled: false });
    expect(first({ phase: "paused", holds: ["human"] })).toMatchObject({ act: { layer: "hand back" }, enabled: false });
  });

  it("a resume says that it asks, too", () => {
    const bar = barOf(run({ phase: "paused", holds: ["user"] }), seen({ connection: "lost" }));

    expect(bar.slots[0]).toMatchObject({ label: "Resume", consequence: ASKS, enabled: true });
  });
});

describe("after the end", () => {
  it("offers to start again from where the server says, if it says so", () => {
    const bar = barOf(run({ phase: "cancelled", fork_from: { position: 6, number: 2, name: "Hold" } }), seen());

    expect(bar.slots[0]).toMatchObject({ label: "Start again", consequence: "A fork from step 2, context kept", act: { do: "fork", at: 6 } });
    expect(barOf(run({ phase: "cancelled", fork_from: null }), seen()).slots[0]).toMatchObject({ label: "New run" });
  });

  it("names the step that failed and its cause", () => {
    const failed = run({ phase: "failed", error: "StepFailed: step 'Pay' failed: no sign-in", cause: "no sign-in", fork_from: { position: 8, number: 2, name: "Pay" } });

    expect(barOf(failed, seen())).toMatchObject({ word: "Failed at step 2", detail: "no sign-in" });
    expect(barOf(failed, seen()).slots.map((slot) => slot.label)).toEqual(["Try again", "Redirect", "Close"]);
  });

  it("says that work is in the thread only if some was saved", () => {
    const close = (saved: RunSheet["receipt"]["saved"]) => barOf(run({ phase: "failed", receipt: { ...run().receipt, saved } }), seen()).slots.at(-1)!.consequence;

    expect(close([])).toBe("Leaves this one as it is");
    expect(close(["memo"] as unknown as RunSheet["receipt"]["saved"])).toBe("Work so far is in the thread");
  });

  it("starts another with the same agent", () => {
    expect(barOf(run({ phase: "done", agent: "report" }), seen()).slots[0]!.act).toEqual({ do: "new run", agent: "report" });
  });

  it("offers what can be undone, and to an operator the way back from a kill", () => {
    expect(labels({ phase: "done" })).toEqual(["Start another", "Open result", "Undo"]);
    expect(labels({ phase: "done", preview: { undo: offer("undo", { enabled: false }) } })).toEqual(["Start another", "Open result"]);
    expect(labels({ phase: "killed", preview: { recover: offer("recover") } })).toEqual(["New run"]);
    expect(labels({ phase: "killed", preview: { recover: offer("recover") } }, { operator: true })).toEqual(["New run", "Recover"]);
  });
});
