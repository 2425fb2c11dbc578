import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Hub, opened, type Ask, type Port, type Posted } from "../src/net/hub";
import type { News } from "../src/model/world";
import { row, run, thread } from "./given";

/** A server that streams what it is told to, and remembers what was asked of it. */
class Server {
  asked: string[][] = [];
  slow = false; // answers when it is told to speak
  speak: () => void = () => {};
  private pipes: ReadableStreamDefaultController<Uint8Array>[] = [];

  answer = async (address: string | URL): Promise<Response> => {
    this.asked.push(new URL(address).searchParams.getAll("watch"));
    if (this.slow) await new Promise<void>((go) => (this.speak = go));
    const body = new ReadableStream<Uint8Array>({ start: (pipe) => void this.pipes.push(pipe) });
    this.say("retry: 1000\n\n");
    return new Response(body, { status: 200 });
  };

  say(text: string, which = -1): void {
    this.pipes.at(which)?.enqueue(new TextEncoder().encode(text));
  }

  tell(event: string, data: unknown, which = -1): void {
    this.say(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`, which);
  }

  hangUp(): void {
    this.pipes.at(-1)?.close();
  }
}

class Tab implements Port {
  heard: News[] = [];
  onmessage: ((message: MessageEvent<Ask>) => void) | null = null;
  postMessage(posted: Posted): void {
    this.heard.push(opened(posted));
  }
  watch(...journals: string[]): void {
    this.onmessage?.({ data: { ask: "watch", journals } } as MessageEvent<Ask>);
  }
  kinds = (): string[] => this.heard.map((news) => ("journal" in news ? `${news.kind} ${news.journal}` : news.kind));
}

const server = { current: new Server() };
const soon = () => new Promise((done) => setTimeout(done, 40));

beforeEach(() => {
  server.current = new Server();
  vi.stubGlobal("fetch", (address: string | URL) => server.current.answer(address));
});
afterEach(() => vi.unstubAllGlobals());

const view = { journal: "r-1", at: 200, view: run() };

/** A tab that has the whole of a run, and a server that takes its time from then on. */
async function watching(): Promise<Tab> {
  const hub = new Hub("http://here/", () => 0);
  const one = new Tab();
  hub.join(one);
  one.watch("r-1");
  await soon();
  server.current.tell("view", view);
  await soon();
  server.current.slow = true;
  return one;
}

describe("the hub", () => {
  it("has one stream for what all tabs watch", async () => {
    const hub = new Hub("http://here/", () => 0);
    const [one, two] = [new Tab(), new Tab()];
    hub.join(one);
    hub.join(two);

    one.watch("r-1");
    two.watch("r-2");
    await soon();

    expect(server.current.asked).toEqual([["r-1", "r-2"]]);
  });

  it("tells each tab of what it watches, and all of what concerns everybody", async () => {
    const hub = new Hub("http://here/", () => 0);
    const [one, two] = [new Tab(), new Tab()];
    hub.join(one);
    hub.join(two);
    one.watch("r-1");
    two.watch("t-1");
    await soon();

    server.current.tell("view", view);
    server.current.tell("switches", { at: 201, switches: [] });
    await soon();

    expect(one.kinds()).toEqual(["connection", "switches", "connection", "view r-1", "switches"]);
    expect(two.kinds()).toEqual(["connection", "switches", "connection", "switches"]);
  });

  it("tells a tab that comes later at once how things stand, without asking the server again", async () => {
    const hub = new Hub("http://here/", () => 0);
    const [one, two] = [new Tab(), new Tab()];
    hub.join(one);
    one.watch("r-1");
    await soon();
    server.current.tell("view", view);
    server.current.tell("patch", { journal: "r-1", at: 201, head: 11, patch: [{ op: "replace", path: "/phase", value: "paused" }] });
    await soon();

    hub.join(two);
    two.watch("r-1");

    expect(two.heard.find((news) => news.kind === "view")).toMatchObject({ view: { phase: "paused" } });
    await soon();
    expect(server.current.asked).toHaveLength(1);
  });

  it("tells a tab that comes later what time it is at the server, not when the last news came", async () => {
    let now = 50_000;
    const hub = new Hub("http://here/", () => now);
    const [one, two] = [new Tab(), new Tab()];
    hub.join(one);
    one.watch("r-1");
    await soon();
    server.current.tell("view", view); // 200 s there, 50 s here
    await soon();
    now += 60_000;
    hub.join(two);
    two.watch("r-1");

    expect(two.heard.find((news) => news.kind === "switches")).toMatchObject({ at: 260 });
    expect(two.heard.find((news) => news.kind === "view")).toMatchObject({ at: 260 });
  });

  it("asks for the whole again when a patch does not fit", async () => {
    const hub = new Hub("http://here/", () => 0);
    const one = new Tab();
    hub.join(one);
    one.watch("t-1");
    await soon();
    server.current.tell("view", { journal: "t-1", at: 1, view: thread() });
    server.current.tell("patch", { journal: "t-1", at: 2, head: 9, patch: [{ op: "remove", path: "/lines/7" }] });
    await soon();

    expect(server.current.asked).toHaveLength(2);
    expect(one.kinds().filter((kind) => kind.startsWith("patch"))).toEqual([]);
  });

  it("comes back by itself when the server hangs up", async () => {
    const hub = new Hub("http://here/", () => 0);
    const one = new Tab();
    hub.join(one);
    one.watch("r-1");
    await soon();

    server.current.hangUp();
    await soon();

    expect(server.current.asked).toEqual([["r-1"], ["r-1"]]);
  });

  it("is told by the old stream until the new one speaks, and by the new one alone from then on", async () => {
    const one = await watching();
    one.watch("r-1", "r-2");
    await soon();

    server.current.tell("patch", { journal: "r-1", at: 201, head: 11, patch: [{ op: "replace", path: "/phase", value: "paused" }] });
    await soon();
    expect(one.kinds().at(-1)).toBe("patch r-1");

    server.current.speak();
    await soon();
    server.current.tell("view", { ...view, view: run({ head: 12 }) });
    server.current.tell("patch", { journal: "r-1", at: 202, head: 12, patch: [] }, 0);
    await soon();
    expect(one.kinds().at(-1)).toBe("view r-1");
    expect(server.current.asked).toHaveLength(2);
  });

  it("asks once for the whole, however much the old stream still tells that does not fit", async () => {
    await watching();
    for (let n = 0; n < 3; n++) server.current.tell("patch", { journal: "r-1", at: 2, head: 11, patch: [{ op: "remove", path: "/steps/99" }] });
    await soon();

    expect(server.current.asked).toHaveLength(2);
  });

  it("asks for nothing when the old stream tells of what is not watched any more", async () => {
    const one = await watching();
    one.watch("r-2");
    await soon();
    server.current.tell("patch", { journal: "r-1", at: 2, head: 11, patch: [{ op: "replace", path: "/phase", value: "paused" }] });
    await soon();

    expect(server.current.asked).toEqual([["r-1"], ["r-2"]]);
  });

  it("keeps nothing of runs that nobody watches, however many there are", async () => {
    const hub = new Hub("http://here/", () => 0);
    const one = new Tab();
    hub.join(one);
    one.watch("r-1");
    await soon();
    for (let n = 0; n < 50; n++) server.current.tell("row", { at: 200, row: row(`r-${n}`, 1) });
    server.current.tell("view", { ...view, journal: "r-1" });
    await soon();

    expect(one.kinds().filter((kind) => kind === "row")).toHaveLength(50);
    expect(JSON.stringify(hub["world"])).not.toContain("r-49");
  });

  it("lets a tab go when the lock is free that the tab has said it holds, and not before", async () => {
    const freed: (() => void)[] = [];
    vi.stubGlobal("navigator", { locks: { request: (_: string, then: () => void) => new Promise<void>(() => void freed.push(then)) } });
    const hub = new Hub("http://here/", () => 0);
    const [one, two] = [new Tab(), new Tab()];
    for (const tab of [one, two]) {
      hub.join(tab);
      tab.watch();
    }
    expect(freed).toEqual([]); // asked for too early, it would be granted, and the tab be told nothing any more
    one.onmessage?.({ data: { ask: "held", lock: "one" } } as MessageEvent<Ask>);
    freed[0]!();
    await soon();
    server.current.tell("row", { at: 1, row: row("r-1", 1) });
    await soon();

    expect([one, two].map((tab) => tab.kinds().includes("row"))).toEqual([false, true]);
  });
});
