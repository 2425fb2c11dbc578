// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { loadRuns } from "../src/boot";
import { LIVING } from "../src/model/types";
import { NOTHING_KNOWN } from "../src/model/world";
import { set, state } from "../src/store";
import { row } from "./given";

const asked: URLSearchParams[] = [];
const pages = { newest: { rows: [row("r-9", 1)], next: "r-9" }, living: [{ rows: [row("r-2", 1)], next: "r-2" }, { rows: [row("r-1", 1)], next: "" }] };

beforeEach(() => {
  asked.length = 0;
  set({ world: NOTHING_KNOWN, older: { ...state().older, next: "", loading: false, loaded: false } });
  vi.stubGlobal("fetch", (address: URL) => {
    asked.push(address.searchParams);
    const living = address.searchParams.has("phase");
    return Promise.resolve(Response.json(living ? pages.living[address.searchParams.has("before") ? 1 : 0] : pages.newest));
  });
});
afterEach(() => vi.unstubAllGlobals());

it("lists what still lives, however many runs were begun since", async () => {
  await loadRuns();

  expect(Object.keys(state().world.rows).sort()).toEqual(["r-1", "r-2", "r-9"]);
  expect(asked[1]!.getAll("phase")).toEqual(LIVING);
  expect(asked[2]!.get("before")).toBe("r-2");
  expect(state().older.next).toBe("r-9"); // where "Show earlier runs" goes on
});
