import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Stream } from "../src/net/stream";
import type { News } from "../src/model/world";

let asked: number;
let answers: boolean;
let states: string[];
let pipe: ReadableStreamDefaultController<Uint8Array>;
let stream: Stream;

/** A line on which nothing comes: no answer at all, or one that falls silent. */
function line(_: unknown, { signal }: RequestInit): Promise<Response> {
  asked += 1;
  const given = new Promise<never>((_, fail) => signal!.addEventListener("abort", () => fail(signal!.reason as Error)));
  if (!answers) return given;
  const body = new ReadableStream<Uint8Array>({ start: (made) => void (pipe = made) });
  signal!.addEventListener("abort", () => pipe.error(signal!.reason));
  given.catch(() => {});
  return Promise.resolve(new Response(body, { status: 200 }));
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("fetch", line);
  [asked, answers, states] = [0, true, []];
  stream = new Stream("http://here/", (news: News) => news.kind === "connection" && states.push(news.state));
});

afterEach(() => {
  stream.close();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const speak = async (): Promise<void> => {
  pipe.enqueue(new TextEncoder().encode(": alive\n\n"));
  await vi.advanceTimersByTimeAsync(1);
};

describe("the stream", () => {
  it("is told as lost when its server does not answer within 10 seconds, and is tried again", async () => {
    answers = false;
    stream.watch(["r-1"]);
    await vi.advanceTimersByTimeAsync(9_900);
    expect([asked, states]).toEqual([1, []]);

    await vi.advanceTimersByTimeAsync(200);
    expect([asked, states]).toEqual([2, ["lost"]]);
  });

  it("is told as lost when it falls silent, and as live when it speaks again", async () => {
    stream.watch(["r-1"]);
    await vi.advanceTimersByTimeAsync(1);
    await speak();
    await vi.advanceTimersByTimeAsync(34_000);
    expect(states).toEqual(["live"]);

    await vi.advanceTimersByTimeAsync(1_100);
    expect([asked, states]).toEqual([2, ["live", "lost"]]);
    await speak();
    expect(states).toEqual(["live", "lost", "live"]);
  });

  it("lives for as long as something comes", async () => {
    stream.watch(["r-1"]);
    await vi.advanceTimersByTimeAsync(1);
    for (let n = 0; n < 5; n++) {
      await speak();
      await vi.advanceTimersByTimeAsync(15_000);
    }

    expect([asked, states]).toEqual([1, ["live"]]);
  });
});
