// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { api } from "../src/net/api";
import { Hub, type Ask, type Port } from "../src/net/hub";
import { pageSecret, protocolsWith } from "../src/net/secret";

let sent: (string | null)[];

beforeEach(() => {
  sent = [];
  localStorage.clear();
  vi.stubGlobal("fetch", (_: URL, init: RequestInit) => {
    sent.push(new Headers(init.headers).get("x-midflight-page"));
    return Promise.resolve(Response.json({ by: "ann", role: "operator", page_secret: "mf_second" }));
  });
});
afterEach(() => vi.unstubAllGlobals());

it("keeps the page secret that a code is exchanged for, and sends it with every request", async () => {
  await api.comeIn("mf_code");
  await api.me();
  await api.verb("r-1", "pause", {}, "k");

  expect(sent).toEqual([null, "mf_second", "mf_second"]);
});

it("forgets it when somebody leaves", async () => {
  await api.comeIn("mf_code");
  await api.leave();

  expect(pageSecret()).toBe("");
});

it("gives it to a WebSocket as a protocol, since a WebSocket takes no headers", () => {
  expect(protocolsWith("mf_second")).toEqual(["midflight", "midflight.page.mf_second"]);
});

it("reaches the stream in the worker, which cannot read the page's storage, and again when it changes", async () => {
  const tab: Port = { postMessage: () => undefined, onmessage: null };
  const ask = (wanted: Ask): void => tab.onmessage?.({ data: wanted } as MessageEvent<Ask>);
  new Hub("http://here/", () => 0).join(tab);

  ask({ ask: "secret", secret: "mf_one" });
  ask({ ask: "watch", journals: ["r-1"] });
  await vi.waitFor(() => expect(sent).toContain("mf_one"));
  ask({ ask: "secret", secret: "mf_two" });
  await vi.waitFor(() => expect(sent).toContain("mf_two"));
});
