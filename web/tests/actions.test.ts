// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { confirmAsk, fork, forgetKey, once, press, probe, takeBackPress } from "../src/actions";
import { draft, keepDraft } from "../src/model/drafts";
import { api } from "../src/net/api";
import { NOTHING_KNOWN } from "../src/model/world";
import { set, state } from "../src/store";
import { run } from "./given";

const ACCEPTED = { run: "r-1", position: 11, status: "" };

/** A server that is on the line, or leaves every request hanging, refuses every press, or does it and is not heard. */
class Server {
  mood: "answers" | "hangs" | "refuses" | "loses" = "answers";
  pressed: string[] = [];
  keys: (string | null)[] = [];

  answer = (address: URL, init: RequestInit): Promise<Response> => {
    if (this.mood === "hangs")
      return new Promise((_, fail) => init.signal!.addEventListener("abort", () => fail(init.signal!.reason as Error)));
    if (init.method === "POST") this.keys.push(new Headers(init.headers).get("idempotency-key"));
    if (init.method === "POST") this.pressed.push(address.pathname.split("/").at(-1)!);
    if (this.mood === "loses") return Promise.reject(new TypeError("the line was cut"));
    const refused = init.method === "POST" && this.mood === "refuses";
    const body = refused ? { error: "outdated", message: "Too late", changed: false } : ACCEPTED;
    return Promise.resolve(Response.json(body, { status: refused ? 409 : 200 }));
  };
}

let server: Server;

beforeEach(() => {
  server = new Server();
  vi.stubGlobal("fetch", server.answer);
  sessionStorage.clear();
  set({ world: { ...NOTHING_KNOWN, connection: "live" }, presses: [], asks: [], busy: {}, notice: "", cut: false });
});

afterEach(() => vi.unstubAllGlobals());

describe("a press that is taken back", () => {
  it("while its request hangs is not sent when the line is back", async () => {
    server.mood = "hangs";
    set({ world: { ...NOTHING_KNOWN, connection: "lost" } });
    const pressed = press(run(), "cancel", {}, "Cancel");
    takeBackPress(state().presses[0]!.key);

    expect(await pressed).toBeNull(); // at once: its request was given up
    expect(state().presses).toEqual([]);
    expect(state().busy).toEqual({});
    expect(state().notice).toBe("Taken back; it may already have been sent.");

    server.mood = "answers";
    await probe();
    expect(server.pressed).toEqual([]);
  });

  it("after an unanswered request may have been sent all the same, and says so", () => {
    const waits = { run: "r-1", verb: "pause", body: {}, key: "k", at: 0, label: "Pause" };
    set({ presses: [{ ...waits, unsure: true }] });
    takeBackPress("k");
    expect(state().notice).toContain("may already have been sent");

    set({ presses: [waits], notice: "" });
    takeBackPress("k");
    expect(state().notice).toBe("");
  });
});

describe("a press that asks again", () => {
  it("goes under its own key: it may have been done, and its answer lost", async () => {
    const asked = { run: "r-1", verb: "answer", body: { question: 7 }, key: "k", at: 0, label: "Answer", unsure: true };
    set({ asks: [asked] });
    confirmAsk(asked);
    await vi.waitFor(() => expect(server.keys).toEqual(["k"]));

    expect(state().asks).toEqual([]);
  });
});

describe("a fork", () => {
  it("that is pressed twice is made once", async () => {
    await Promise.all([fork(run(), 3), fork(run(), 3)]);

    expect(server.pressed).toEqual(["fork"]);
  });

  it("that was refused goes out again under its key, and another one under its own", async () => {
    server.mood = "refuses";
    await fork(run(), 3);
    server.mood = "answers";
    await fork(run(), 3);
    await fork(run(), 3); // made; this is meant to be a second one
    await fork(run(), 4);

    expect(server.keys[0]).toBe(server.keys[1]);
    expect(new Set(server.keys).size).toBe(3);
  });
});

describe("what must not be done twice", () => {
  const start = (brief: string) => once("start", { brief }, (key) => api.start({ brief }, key), () => {});

  it("goes out under its key again until it is answered, and then no more", async () => {
    server.mood = "loses";
    vi.useFakeTimers();
    const lost = start("Churn");
    await vi.runAllTimersAsync();
    expect(await lost).toBeNull();
    vi.useRealTimers();
    server.mood = "answers";
    await start("Churn");
    const [key] = server.keys;
    expect(server.keys).toEqual(Array(5).fill(key)); // four tries of the first press, and the second

    await start("Churn"); // which has been answered: this is another one
    expect(server.keys.at(-1)).not.toBe(key);
  });

  it("is something else when it says something else, or was thrown away meanwhile", async () => {
    server.mood = "refuses";
    for (const brief of ["Churn of May", "Churn of June"]) await start(brief);
    forgetKey("start");
    await start("Churn of June");

    expect(new Set(server.keys).size).toBe(3);
  });

  it("keeps its key when another one is answered that was sent before", async () => {
    const answered = start("Churn of May");
    server.mood = "loses";
    vi.useFakeTimers();
    const lost = start("Churn of June");
    await vi.runAllTimersAsync();
    await Promise.all([answered, lost]);
    vi.useRealTimers();
    server.mood = "answers";
    await start("Churn of June");

    expect(server.keys.at(-1)).toBe(server.keys[1]);
  });
});

describe("words that go with a press", () => {
  const words = { place: "redirect:r-1", text: "Only the EU" };
  beforeEach(() => keepDraft(words.place, words.text));

  it("are kept when it is refused", async () => {
    server.mood = "refuses";
    await press(run(), "redirect", { text: words.text }, "Redirect", words);
    await fork(run(), 3, words.text, words);

    expect(server.pressed).toEqual(["redirect", "fork"]);
    expect(draft(words.place)).toBe(words.text);
  });

  it("are shown again in the form that they were typed into when it is refused", async () => {
    set({ run: "r-1", layer: "none", world: { ...NOTHING_KNOWN, connection: "live", sheets: { "r-1": run() } } });
    server.mood = "refuses";
    await press(run(), "redirect", { text: words.text }, "Redirect", words, "redirect");

    expect(state().layer).toBe("redirect");
    expect(draft(words.place)).toBe(words.text);
  });

  it("are let go of once it is accepted", async () => {
    await press(run(), "redirect", { text: words.text }, "Redirect", words);

    expect(draft(words.place)).toBe("");
  });

  it("stay when they were written on before the answer came", async () => {
    const pressed = press(run(), "redirect", { text: words.text }, "Redirect", words);
    keepDraft(words.place, "Only the EU, please");
    await pressed;

    expect(draft(words.place)).toBe("Only the EU, please");
  });
});
