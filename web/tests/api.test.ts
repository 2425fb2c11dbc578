// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { api, Refused } from "../src/net/api";

let tooQuick: number;
let keys: (string | null)[];

beforeEach(() => {
  vi.useFakeTimers();
  keys = [];
  vi.stubGlobal("fetch", (_: URL, init: RequestInit) => {
    keys.push(new Headers(init.headers).get("idempotency-key"));
    if (tooQuick-- <= 0) return Promise.resolve(Response.json({ run: "r-1", thread: "t-1" }));
    const problem = { error: "too_quick", message: "Wait 2 s.", changed: false };
    return Promise.resolve(Response.json(problem, { status: 429, headers: { "retry-after": "2" } }));
  });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it("waits as long as the server says when it has asked too often, and asks the same again", async () => {
  tooQuick = 1;
  const answer = api.verb("r-1", "pause", {}, "k");
  await vi.advanceTimersByTimeAsync(1_900);
  expect(keys).toEqual(["k"]);
  await vi.advanceTimersByTimeAsync(200);

  expect(await answer).toMatchObject({ run: "r-1" });
  expect(keys).toEqual(["k", "k"]);
});

it("does not wait for ever", async () => {
  tooQuick = Infinity;
  const answer = expect(api.row("r-1")).rejects.toBeInstanceOf(Refused);
  await vi.advanceTimersByTimeAsync(60_000);

  await answer;
  expect(keys.length).toBe(4);
});
