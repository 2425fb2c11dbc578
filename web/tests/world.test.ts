import { describe, expect, it } from "vitest";
import { Misfit } from "../src/model/patch";
import { hear, NOTHING_KNOWN, sayingOf, type News, type World } from "../src/model/world";
import { row, run } from "./given";

const all = (news: News[], from: World = NOTHING_KNOWN): World => news.reduce((world, one) => hear(world, one, 1_000), from);
const view: News = { kind: "view", journal: "r-1", at: 200, view: run() };
const delta = (offset: number, text: string): News => ({ kind: "delta", journal: "r-1", step: "s", attempt: 4, offset, text });
const said = (world: World) => world.texts["r-1"]?.["s#4"];

describe("what is heard", () => {
  it("is a view first, and patches of it afterwards", () => {
    const world = all([view, { kind: "patch", journal: "r-1", at: 201, head: 11, patch: [{ op: "replace", path: "/phase", value: "paused" }] }]);

    expect(world.sheets["r-1"]).toMatchObject({ phase: "paused", title: "Dinner" });
  });

  it("says nothing new when it is older than what is known", () => {
    const world = all([view, { kind: "patch", journal: "r-1", at: 201, head: 9, patch: [{ op: "replace", path: "/phase", value: "paused" }] }]);

    expect(world.sheets["r-1"]).toMatchObject({ phase: "running" });
  });

  it("must be told whole when a patch comes for what was never seen", () => {
    expect(() => all([{ kind: "patch", journal: "r-9", at: 1, head: 1, patch: [] }])).toThrow(Misfit);
  });

  it("is replaced by the view that comes after a reconnect", () => {
    const world = all([view, { kind: "connection", state: "lost" }, { kind: "connection", state: "live" }, { ...view, view: run({ phase: "done", head: 30 }) } as News]);

    expect(world.sheets["r-1"]).toMatchObject({ phase: "done" });
    expect(world.lostAt).toBeNull();
  });
});

describe("what a step says", () => {
  it("grows, is told again, and may be taken back", () => {
    expect(said(all([delta(0, "Dear"), delta(4, " Ann")]))).toBe("Dear Ann");
    expect(said(all([delta(0, "Dear Ann"), delta(4, " Bob")]))).toBe("Dear Bob");
    expect(said(all([delta(0, "Dear Ann"), delta(0, "Hello")]))).toBe("Hello");
  });

  it("is not guessed at where a piece is missing", () => {
    expect(said(all([delta(0, "Dear"), delta(9, "Ann")]))).toBe("Dear");
  });

  it("is counted in characters as the server counts them", () => {
    expect(said(all([delta(0, "🎂 for"), delta(5, " eight")]))).toBe("🎂 for eight");
  });
});

describe("which step says it", () => {
  it("is known by its id, or by its name where it is not on record yet", () => {
    const texts = { "Score:1#0": "reading", "s#4": "Dear", "s#9": "Hello" };
    expect(sayingOf(texts, { id: "s", name: "Write" })).toBe("Hello");
    expect(sayingOf(texts, { id: "plan-3", name: "Score" })).toBe("reading");
    expect(sayingOf(texts, { id: "plan-4", name: "Send" })).toBe("");
    expect(sayingOf(undefined, { id: "s", name: "Write" })).toBe("");
  });
});

describe("time", () => {
  it("is the server's, and does not jump with every message", () => {
    const world = all([view]);

    expect(world.offset).toBeCloseTo(199);
    expect(hear(world, { kind: "row", at: 200.1, row: row("r-2", 1) }, 1_000).offset).toBe(world.offset);
    expect(hear(world, { kind: "row", at: 260, row: row("r-2", 1) }, 1_000).offset).toBeCloseTo(259);
  });
});

describe("the list of runs", () => {
  it("takes a row only if it is newer", () => {
    const world = all([
      { kind: "row", at: 1, row: row("r-1", 5, { phase: "done" }) },
      { kind: "row", at: 2, row: row("r-1", 4, { phase: "running" }) },
    ]);

    expect(world.rows["r-1"]?.phase).toBe("done");
  });
});
