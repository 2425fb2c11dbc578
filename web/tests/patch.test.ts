import { describe, expect, it } from "vitest";
import { applyPatch, Misfit } from "../src/model/patch";

describe("a patch", () => {
  it("replaces, adds and removes, in objects and in lists", () => {
    const before = { phase: "running", steps: [{ word: "Done" }, { word: "Queued" }], error: "x" };

    const after = applyPatch(before, [
      { op: "replace", path: "/phase", value: "paused" },
      { op: "replace", path: "/steps/1/word", value: "Paused" },
      { op: "add", path: "/steps/-", value: { word: "New" } },
      { op: "add", path: "/steps/0", value: { word: "First" } },
      { op: "remove", path: "/error" },
    ]);

    expect(after).toEqual({ phase: "paused", steps: [{ word: "First" }, { word: "Done" }, { word: "Paused" }, { word: "New" }] });
    expect(before.steps).toHaveLength(2);
  });

  it("leaves what it does not touch the same object, so that it is not drawn again", () => {
    const before = { steps: [{ word: "Done" }, { word: "Queued" }], limits: { usd: 2 } };

    const after = applyPatch(before, [{ op: "replace", path: "/steps/1/word", value: "Running" }]);

    expect(after.steps[0]).toBe(before.steps[0]);
    expect(after.limits).toBe(before.limits);
    expect(after.steps[1]).not.toBe(before.steps[1]);
  });

  it("replaces the whole document at the empty path", () => {
    expect(applyPatch<unknown>({ a: 1 }, [{ op: "replace", path: "", value: { b: 2 } }])).toEqual({ b: 2 });
  });

  it("reads slashes and tildes in names", () => {
    expect(applyPatch({ "a/b": { "c~d": 1 } }, [{ op: "replace", path: "/a~1b/c~0d", value: 2 }])).toEqual({ "a/b": { "c~d": 2 } });
  });

  it("moves and copies", () => {
    expect(applyPatch<unknown>({ a: [1, 2], b: {} }, [{ op: "move", from: "/a/0", path: "/b/x" }, { op: "copy", from: "/a/0", path: "/c" }])).toEqual({
      a: [2], b: { x: 1 }, c: 2,
    });
  });

  it("of something else does not fit, and says so instead of guessing", () => {
    expect(() => applyPatch({ steps: [] }, [{ op: "replace", path: "/steps/3/word", value: "Done" }])).toThrow(Misfit);
    expect(() => applyPatch({}, [{ op: "replace", path: "/a/b", value: 1 }])).toThrow(Misfit);
    expect(() => applyPatch({ a: 1 }, [{ op: "test", path: "/a", value: 2 }])).toThrow(Misfit);
  });
});
