import { describe, expect, it } from "vitest";
import { figure, gauge, spending } from "../src/model/meters";
import type { Meter, RunSheet } from "../src/model/types";
import { run } from "./given";

const NOW = 150; // when the run was told last: nothing has gone on since
const meter = (name: string, used: number, cap: number): Meter => ({ name, used, cap });
const shown = (meters: Meter[], more: Partial<RunSheet> = {}) => gauge(run({ meters, ...more }), NOW);

describe("the meter", () => {
  it("tells what was spent of what may be, and warns from 80 %", () => {
    expect(shown([meter("usd", 0.42, 2)])).toMatchObject({ spent: "$0.42 of $2.00", cap: "", share: 0.21, near: false });
    expect(shown([meter("usd", 1.6, 2)], { spent: { ...run().spent, usd: 1.6 } })).toMatchObject({ spent: "$1.60 of $2.00", near: true });
    expect(shown([], { limits: {} })).toMatchObject({ spent: "$0.42", cap: "", share: null, near: false });
  });

  it("shows the cap that is nearest, whichever it is, and what was spent beside it", () => {
    const money = meter("usd", 0.42, 2);

    expect(shown([meter("steps", 2, 2), money])).toMatchObject({ spent: "$0.42", cap: "2 of 2 steps", share: 1, near: true });
    expect(shown([meter("tool_calls", 9, 10), money])).toMatchObject({ cap: "9 of 10 tool calls", near: true });
    expect(shown([meter("steps", 2, 50)], { limits: { steps: 50 } })).toMatchObject({ spent: "$0.42", cap: "2 of 50 steps", near: false });
    expect(shown([meter("steps", 0, 0), money])).toMatchObject({ cap: "0 of 0 steps", share: 1, near: true });
  });

  it("stays with the cap on money while no other is half full, and has all of them for who asks", () => {
    const { spent, cap, share, about } = shown([meter("steps", 99, 200), meter("usd", 0.42, 2)]);

    expect([spent, cap, share, about]).toEqual(["$0.42 of $2.00", "", 0.21, "99 of 200 steps, $0.42 of $2.00"]);
    expect(shown([meter("steps", 100, 200), meter("usd", 0.42, 2)])).toMatchObject({ spent: "$0.42", cap: "100 of 200 steps", share: 0.5, near: false });
  });

  it("counts time on while the run moves, as the cap on it does", () => {
    const timed = run({ meters: [meter("seconds", 121, 140)], limits: { seconds: 140 } });

    expect(gauge(timed, NOW)).toMatchObject({ cap: "time 2:01 of 2:20", near: true });
    expect(gauge(timed, NOW + 10).cap).toBe("time 2:11 of 2:20");
    expect(gauge({ ...timed, moving_since: null }, NOW + 10).cap).toBe("time 2:01 of 2:20");
  });

  it("is as near to the cap as what calls in flight have reserved, and says so", () => {
    const { spent, near, label, about } = shown([meter("steps", 1, 9), meter("usd", 1.7, 2)]);

    expect([spent, near]).toEqual(["$0.42 of $2.00", true]);
    expect(label).toBe("Spent: $0.42 of $2.00 and $1.28 reserved");
    expect(about).toBe("1 of 9 steps, $0.42 of $2.00 and $1.28 reserved");
  });

  it("reads as people write it", () => {
    expect(figure("seconds", 58.7, 60)).toBe("58 of 60 s");
    expect(figure("steps", 1, 1)).toBe("1 of 1 step");
    expect(figure("tokens", 12_345, 50_000)).toBe("12k of 50k tokens");
    expect(spending({ ...run().spent, usd: 0, tokens: 12_345 }, { tokens: 50_000 })).toBe("12k of 50k tokens");
    expect(spending({ ...run().spent, unpriced: 10 }, {})).toBe("$0.42 + unpriced");
  });
});
