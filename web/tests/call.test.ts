// @vitest-environment jsdom
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Call, type Listener } from "../src/voice/call";
import { FRAME } from "../src/voice/talk";

/** As much of a browser as a call needs, and what became of it. */
class Browser {
  wanted: MediaStreamConstraints[] = [];
  tracks: { stopped: boolean; stop: () => void }[] = [];
  sent: (string | ArrayBuffer)[] = [];
  played: unknown[] = [];
  closed: string[] = [];
  protocols: string[] = [];
  socket: { onmessage?: (event: { data: unknown }) => void; onclose?: () => void; readyState: number } | null = null;
  port: { onmessage?: (event: { data: unknown }) => void } = {};
  allow: () => void = () => undefined;
  module = Promise.resolve();
  context: { state: string; onstatechange?: () => void; outputLatency?: number | undefined } | null = null;

  constructor() {
    const browser = this;
    const allowed = new Promise<void>((resolve) => (this.allow = resolve));
    const getUserMedia = async (wanted: MediaStreamConstraints) => {
      this.wanted.push(wanted);
      await allowed;
      const track = { stopped: false, stop: () => (track.stopped = true) };
      this.tracks.push(track);
      return { getTracks: () => [track] };
    };
    vi.stubGlobal("navigator", { mediaDevices: { getUserMedia } });
    const node = { connect: (to: unknown) => to };
    vi.stubGlobal(
      "AudioContext",
      class {
        state = "running";
        audioWorklet = { addModule: () => browser.module };
        destination = node;
        createMediaStreamSource = () => node;
        onstatechange?: () => void;
        outputLatency?: number | undefined;
        constructor() {
          browser.context = this;
        }
        resume = () => Promise.resolve();
        close = () => {
          this.state = "closed";
          browser.closed.push("context");
          return Promise.resolve();
        };
      },
    );
    vi.stubGlobal(
      "AudioWorkletNode",
      class {
        connect = (to: unknown) => to;
        port = Object.assign(browser.port, { postMessage: (order: unknown) => browser.played.push(order) });
      },
    );
    vi.stubGlobal(
      "WebSocket",
      class {
        static OPEN = 1;
        readyState = 1;
        onclose?: () => void;
        constructor(_: URL, protocols: string[]) {
          browser.protocols = protocols;
          browser.socket = this;
        }
        send = (what: string | ArrayBuffer) => browser.sent.push(what);
        close = () => {
          browser.closed.push("socket");
          this.onclose?.();
        };
      },
    );
  }

  says(message: unknown): void {
    this.socket!.onmessage!({ data: message instanceof ArrayBuffer ? message : JSON.stringify(message) });
  }

  /** As for a telephone call, and when it is over. */
  sounds(state: string): void {
    this.context!.state = state;
    this.context!.onstatechange?.();
  }

  hears(level: number): void {
    this.port.onmessage!({ data: { played: 0, heard: new Int16Array(FRAME).fill(level), level: 0.1 } });
  }
}

const settled = () => new Promise((resolve) => setTimeout(resolve));
let browser: Browser;
let over: string[];
let listener: Listener;

beforeEach(() => {
  browser = new Browser();
  over = [];
  listener = { said: () => undefined, level: () => undefined, over: (why) => over.push(why) };
});
afterEach(() => vi.unstubAllGlobals());

test("the line is opened when microphone and loudspeaker are ready, so that neither side is missed", async () => {
  const opening = new Call("t-1", "hands-free", listener).open();
  await settled();
  expect(browser.socket).toBeNull();
  browser.allow();
  await settled();
  expect(browser.socket).not.toBeNull();

  browser.says(new ArrayBuffer(8)); // it speaks before it says that it listens
  expect(browser.played).toHaveLength(1);
  browser.says({ t: "floor", floor: "quiet" });
  await opening;
});

test("the browser is asked to take our own voice out of what it hears, and noise with it", async () => {
  void new Call("t-1", "hands-free", listener).open();
  await settled();

  expect(browser.wanted).toEqual([{ audio: { echoCancellation: true, noiseSuppression: true, channelCount: 1 } }]);
});

test("what is said before the server listens is sent when it does, after the greeting and before the rest", async () => {
  const opening = new Call("t-1", "hands-free", listener).open();
  browser.allow();
  await settled();
  browser.hears(11);
  browser.hears(12);
  expect(browser.sent).toEqual([]);

  browser.says({ t: "floor", floor: "quiet" });
  await opening;
  browser.hears(13);

  const [hello, ...sounds] = browser.sent;
  expect(JSON.parse(hello as string)).toEqual({ t: "hello", rate: 16_000, mode: "hands-free" });
  const heard = sounds.map((sound) => new DataView(sound as ArrayBuffer));
  expect(heard.map((sound) => sound.byteLength)).toEqual([4 + 2 * FRAME * 2, 4 + FRAME * 2]);
  expect([heard[0]!.getInt16(4, true), heard[0]!.getInt16(4 + FRAME * 2, true), heard[1]!.getInt16(4, true)]).toEqual([11, 12, 13]);
});

test("what was played before a cut is told with the number of that cut, if it has one", async () => {
  const opening = new Call("t-1", "hands-free", listener).open();
  browser.allow();
  await settled();
  browser.says({ t: "floor", floor: "quiet" });
  await opening;
  browser.says({ t: "cut", number: 7 });
  browser.says({ t: "cut" }); // by a server of before

  expect(browser.played).toEqual([{ t: "cut", number: 7 }, { t: "cut" }]);
  browser.port.onmessage!({ data: { silenced: 4_800, number: 7 } });
  browser.port.onmessage!({ data: { silenced: 4_800, number: undefined } });
  expect(browser.sent.slice(1).map((sent) => JSON.parse(sent as string) as object)).toEqual([{ t: "silenced", played: 4_800, number: 7 }, { t: "silenced", played: 4_800 }]);
});

test("what is played is counted as late as the browser says that it is heard, within reason", async () => {
  const opening = new Call("t-1", "hands-free", listener).open();
  browser.allow();
  await settled();
  browser.says({ t: "floor", floor: "quiet" });
  await opening;
  for (const latency of [undefined, NaN, 0.2, 0.201, 0.02, 60]) {
    browser.context!.outputLatency = latency;
    browser.hears(1);
  }

  expect(browser.played).toEqual([0.2, 0.02, 0.5].map((seconds) => ({ t: "latency", seconds })));
});

test("a browser that stops the sound is asked to go on, and the person is told, also when it is back", async () => {
  const told: string[] = [];
  const opening = new Call("t-1", "hands-free", { ...listener, said: (message) => message.t === "trouble" && told.push(message.text) }).open();
  browser.allow();
  await settled();
  browser.says({ t: "floor", floor: "quiet" });
  await opening;
  const asked = vi.spyOn(browser.context as unknown as { resume: () => Promise<void> }, "resume").mockRejectedValue(new DOMException("not yet", "InvalidStateError"));

  browser.sounds("interrupted");
  await settled();
  expect(told).toEqual([expect.stringContaining("You are not heard")]);
  expect(asked).toHaveBeenCalledTimes(1);
  browser.sounds("suspended"); // still: it is not told twice
  document.dispatchEvent(new Event("pointerdown"));
  expect(asked).toHaveBeenCalledTimes(3);
  browser.sounds("running");
  document.dispatchEvent(new Event("pointerdown"));

  expect(told.slice(1)).toEqual(["The sound is back."]);
  expect(asked).toHaveBeenCalledTimes(3);
});

test("a call that was hung up asks for no sound any more", async () => {
  const call = new Call("t-1", "hands-free", listener);
  const opening = call.open();
  browser.allow();
  await settled();
  browser.says({ t: "floor", floor: "quiet" });
  await opening;
  browser.sounds("suspended");
  const asked = vi.spyOn(browser.context as unknown as { resume: () => Promise<void> }, "resume");
  call.hangUp();
  document.dispatchEvent(new Event("pointerdown"));

  expect(asked).not.toHaveBeenCalled();
});

test("who leaves while the microphone is asked for leaves no microphone open", async () => {
  const call = new Call("t-1", "hands-free", listener);
  const opening = call.open();
  call.hangUp();
  browser.allow();
  await opening;

  expect(browser.tracks.map((track) => track.stopped)).toEqual([true]);
  expect(browser.socket).toBeNull();
});

test("who leaves while the line is being opened leaves neither open", async () => {
  const call = new Call("t-1", "hands-free", listener);
  const opening = call.open();
  browser.allow();
  await settled();
  call.hangUp();
  await opening;

  expect(browser.tracks.map((track) => track.stopped)).toEqual([true]);
  expect(browser.closed).toEqual(["context", "socket"]);
  expect(over).toEqual([""]);
});

test("a line that is refused says why, and lets the microphone go", async () => {
  const opening = new Call("t-1", "hands-free", listener).open();
  browser.allow();
  await settled();
  browser.says({ t: "trouble", text: "All 32 lines of this server are taken." });
  browser.socket!.onclose!();

  await expect(opening).rejects.toThrow("All 32 lines of this server are taken.");
  expect(browser.tracks.map((track) => track.stopped)).toEqual([true]);
});

test("in push to talk nothing is sent but while the key is down, and another way is told to the server", async () => {
  const call = new Call("t-1", "push", listener);
  const opening = call.open();
  browser.allow();
  await settled();
  browser.hears(11);
  browser.says({ t: "floor", floor: "quiet" });
  await opening;
  browser.hears(12);
  call.press(true);
  browser.hears(13);
  call.press(false);
  call.choose("hands-free");

  const told = browser.sent.map((sent) => (typeof sent === "string" ? (JSON.parse(sent) as object) : sent.byteLength));
  expect(told).toEqual([
    { t: "hello", rate: 16_000, mode: "push" },
    4,
    { t: "talk", on: true },
    4 + FRAME * 2,
    { t: "talk", on: false },
    { t: "hello", rate: 16_000, mode: "hands-free" },
  ]);
});

test("a page that may not have a microphone says why, in words for people", async () => {
  vi.stubGlobal("navigator", {}); // as browsers do for pages over plain HTTP

  await expect(new Call("t-1", "hands-free", listener).open()).rejects.toThrow(/only to pages that come over HTTPS/);
});

test("a browser whose sound cannot be prepared says so in words for people, and lets the microphone go", async () => {
  browser.module = Promise.reject(new DOMException("Unable to load a worklet's module.", "AbortError"));
  const opening = new Call("t-1", "hands-free", listener).open();
  browser.allow();

  await expect(opening).rejects.toThrow("This browser could not prepare its sound. Nothing was changed; try again, or write.");
  expect(browser.tracks.every((track) => track.stopped)).toBe(true);
});
