// @vitest-environment jsdom
import { beforeEach, describe, expect, it } from "vitest";
import { ROWS_MAX } from "../src/model/rows";
import { NOTHING_KNOWN } from "../src/model/world";
import { addRows, heard, set, state } from "../src/store";
import { row } from "./given";

const id = (n: number): string => `r-${String(n).padStart(6, "0")}`;
const ended = (n: number, more = {}) => row(id(n), 1, { phase: "done", ...more });
const known = (): string[] => Object.keys(state().world.rows).sort();
const comes = (from: number, to: number, more = {}) => {
  for (let n = from; n < to; n++) heard({ kind: "row", at: n, row: ended(n, more) });
};

beforeEach(() => set({ world: NOTHING_KNOWN, older: { next: "", loading: false, loaded: true, most: ROWS_MAX }, search: { words: "", found: null } }));

describe("a tab that is left open", () => {
  it("knows no more runs than it may, however many come: those that ended last", () => {
    comes(0, 3 * ROWS_MAX);

    expect(known().length).toBeLessThan(1.2 * ROWS_MAX);
    expect(known().at(-1)).toBe(id(3 * ROWS_MAX - 1));
  });

  it("asks the server for what it has let go of, and leaves no hole", () => {
    set({ older: { ...state().older, next: id(1) } });
    comes(2, 2 * ROWS_MAX);
    const last = known()[0]!;

    expect(state().older.next >= last).toBe(true);
    const all = Array.from({ length: 2 * ROWS_MAX }, (_, n) => id(n));
    const shownOrAskedFor = [...all.filter((one) => one < state().older.next), ...known()];
    expect(new Set(shownOrAskedFor)).toEqual(new Set(all));
  });

  it("lets go of nothing that lives, however old, nor of what a search has found", () => {
    addRows([row(id(0), 1, { phase: "paused" }), ended(1)]);
    set({ search: { words: "whales", found: [id(1)] } });
    comes(2, 2 * ROWS_MAX);

    expect(known().slice(0, 2)).toEqual([id(0), id(1)]);
  });

  it("is not filled with runs that others began", () => {
    addRows([ended(0)]);
    comes(1, 3 * ROWS_MAX, { parent: id(0) });

    expect(known()).toContain(id(0));
    expect(state().older.next).toBe(""); // there is no earlier one to show
    expect(known().length).toBeLessThan(1.2 * ROWS_MAX);
  });
});
