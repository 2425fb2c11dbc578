import { describe, expect, it } from "vitest";
import { routeOf } from "../src/model/route";
import { ago, barClock, clock, oneLine, place, straight, timeLeft, worked } from "../src/model/words";
import { SseParser } from "../src/net/sse";
import { queued, run, step } from "./given";

describe("words", () => {
  it("tell the time as people do", () => {
    expect([clock(21), clock(760), clock(3723), barClock(121)]).toEqual(["0:21", "12:40", "1:02:03", "02:01"]);
    expect([ago(5), ago(2400), ago(7200)]).toEqual(["just now", "40 min ago", "2 h ago"]);
    expect([timeLeft(0), timeLeft(42), timeLeft(840)]).toEqual(["expired", "42 s left", "14 min left"]);
  });

  it("show a sign for what would turn the direction of reading, and leave words from right to left as they are", () => {
    expect(straight("pay \u202e001\u202c to \u2067x\u2069")).toBe("pay \ufffd001\ufffd to \ufffdx\ufffd");
    expect(straight("\u200e1\u200f2\u061c3")).toBe("\ufffd1\ufffd2\ufffd3");
    expect(oneLine("שלום\n\u202eעולם")).toBe("שלום \ufffdעולם");
  });

  it("count the working time only while it moves", () => {
    expect(worked(run(), 160)).toBe(131);
    expect(worked(run({ moving_since: null }), 160)).toBe(121);
  });

  it("stop the clock of a run that nobody drives", () => {
    expect(worked(run({ undriven_since: 150 }), 3600)).toBe(121);
  });

  it("say where it is", () => {
    expect(place(run())).toBe("step 2 of 3");
    expect(place(run({ steps: [step("a"), step("b")] }))).toBe("2 steps");
    expect(place(run({ plan: ["a", "b"], steps: [step("a"), queued("b")] }))).toBe("step 1 of 2");
  });
});

describe("an address", () => {
  it("names a run, a thread, or nothing", () => {
    expect(routeOf("/")).toEqual({ page: "home" });
    expect(routeOf("/runs/r-1")).toEqual({ page: "run", run: "r-1" });
    expect(routeOf("/threads/t-a%20b")).toEqual({ page: "thread", thread: "t-a b" });
    expect(routeOf("/runs/%E0%A4%A")).toEqual({ page: "lost" });
    expect(routeOf("/runs/r-1/more")).toEqual({ page: "lost" });
  });
});

describe("the stream", () => {
  it("is read in whatever pieces it comes", () => {
    const text = 'retry: 1000\n\n: alive\n\nevent: view\ndata: {"a":\ndata: 1}\n\nevent: delta\r\ndata: x\r\n\r\n';
    const whole = new SseParser().push(text);
    const parser = new SseParser();

    expect(whole).toEqual([{ event: "view", data: '{"a":\n1}' }, { event: "delta", data: "x" }]);
    expect([...text].flatMap((char) => parser.push(char))).toEqual(whole);
  });
});
