import { describe, expect, it } from "vitest";
import { isStopped, reached, refused, scopesAt, stopped } from "../src/model/scopes";
import { row, run } from "./given";

const rows = [
  row("r-1", 1), row("r-2", 1, { thread: "t-2" }), row("r-3", 1, { agent: "other", phase: "pausing" }),
  row("r-4", 1, { agent: "demo.aside", thread: "t-2" }), row("r-5", 1, { phase: "paused" }), row("r-6", 1, { phase: "queued", agent: "other" }),
  row("r-7", 1, { phase: "done" }), row("t-1", 1, { kind: "thread", phase: "", agent: "" }),
];

describe("a kill switch", () => {
  it("can be turned for everything, and for the agent and the thread of the run that is open", () => {
    expect(scopesAt(undefined).map((one) => one.scope)).toEqual(["all"]);
    expect(scopesAt(run()).map((one) => one.scope)).toEqual(["all", "agent:demo", "thread:t-1"]);
    expect(scopesAt(run({ agent: "demo.aside" }))[1]).toEqual({ scope: "agent:demo", choice: "Agent demo" });
  });

  it("ends what moves in its scope and holds what rests there", () => {
    expect(reached("all", rows)).toEqual({ moving: 4, resting: 2 });
    expect(reached("agent:demo", rows)).toEqual({ moving: 3, resting: 1 });
    expect(reached("thread:t-1", rows)).toEqual({ moving: 2, resting: 2 });
    expect(reached("thread:t-9", rows)).toEqual({ moving: 0, resting: 0 });
  });

  it("names what it would stop, by runs and by its scope", () => {
    expect([stopped("all", 3, "t-1"), stopped("all", 0, "t-1")]).toEqual(["3 runs", "all agents"]);
    expect([stopped("agent:demo", 1, "t-1"), stopped("agent:demo", 0, "t-1")]).toEqual(["1 run of agent demo", "agent demo"]);
    expect([stopped("thread:t-1", 2, "t-1"), stopped("thread:t-1", 0, "t-1")]).toEqual(["2 runs in this thread", "this thread"]);
  });

  it("says what is stopped and what is refused, wherever it is read", () => {
    expect([isStopped("all", ""), refused("all", "")]).toEqual(["All agents are stopped", "New runs are refused"]);
    expect([isStopped("agent:demo", ""), refused("agent:demo", "")]).toEqual(["Agent demo is stopped", "New runs of agent demo are refused"]);
    expect([isStopped("thread:t-1", "t-1"), refused("thread:t-1", "t-1")]).toEqual(["This thread is stopped", "New runs in this thread are refused"]);
    expect([isStopped("thread:t-1", "t-2"), refused("thread:t-1", "t-2")]).toEqual(["Thread t-1 is stopped", "New runs in thread t-1 are refused"]);
  });
});
