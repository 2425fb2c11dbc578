import { describe, expect, it } from "vitest";
import { capsOf, raised } from "../src/model/caps";

describe("a raised cap", () => {
  it("is what stands in the field", () => {
    expect(capsOf({ usd: "$2.50", steps: " 40 " })).toEqual({ limits: { usd: 2.5, steps: 40 } });
    expect(capsOf({ usd: "0" })).toEqual({ limits: { usd: 0 } });
  });

  it("is refused in words where the field is empty: that is no cap of zero", () => {
    for (const empty of ["", "  ", "$"])
      expect(capsOf({ tokens: "100", usd: empty })).toEqual({ wrong: "Money, $: this cap is empty. Write a number, or keep it as it is." });
  });

  it("is refused where it is no number, or no whole one of what is counted", () => {
    for (const none of ["much", "-1", "Infinity", "NaN"]) expect(capsOf({ seconds: none })).toEqual({ wrong: `Seconds of work: “${none}” is not a number of zero or more.` });
    expect(capsOf({ steps: "7.5" })).toEqual({ wrong: "Steps: “7.5” is not a whole number." });
  });

  it("is offered half as high again, and is one that would be taken", () => {
    expect([raised("usd", 0.4), raised("steps", 5), raised("seconds", 5), raised("tokens", 1000), raised("steps", 0)]).toEqual([0.6, 8, 7.5, 1500, 1]);
  });
});
