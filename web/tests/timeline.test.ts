import { describe, expect, it } from "vitest";
import { axisOf, restsOf, spansOf, ticks } from "../src/model/timeline";
import type { Mark } from "../src/model/types";
import { run, step } from "./given";

const mark = (at: number, kind: string): Mark => ({ at, kind, text: kind, by: "" });

describe("the timeline", () => {
  it("knows when a run rested, and that it still does", () => {
    const given = run({ marks: [mark(110, "pause"), mark(112, "paused"), mark(140, "resume"), mark(150, "question")] });

    expect(restsOf(given, 160)).toEqual([{ from: 112, to: 140, word: "Paused" }, { from: 150, to: 160, word: "Waited for an answer" }]);
  });

  it("rests until the last of what holds it has let go", () => {
    const both = run({ marks: [mark(110, "question"), mark(120, "pause"), mark(120, "paused"), mark(130, "resume"), mark(150, "answer")] });
    const two = run({ marks: [mark(110, "question"), mark(111, "question"), mark(130, "answer"), mark(150, "answer")] });
    const capped = run({ marks: [mark(110, "cap"), mark(110, "question"), mark(111, "paused"), mark(150, "closed"), mark(150, "limits")] });

    for (const given of [both, two, capped]) expect(restsOf(given, 200).map(({ from, to }) => [from, to])).toEqual([[110, 150]]);
  });

  it("knows that what was parked has come back, also if a person paused it meanwhile", () => {
    const parked = [mark(110, "parked"), mark(111, "paused"), mark(150, "lifted parked")];
    const paused = [mark(110, "parked"), mark(111, "paused"), mark(120, "pause"), mark(120, "paused"), mark(150, "lifted parked"), mark(160, "resume")];

    expect(restsOf(run({ marks: parked }), 200)).toEqual([{ from: 110, to: 150, word: "Parked" }]);
    expect(restsOf(run({ marks: paused }), 200)).toEqual([{ from: 110, to: 160, word: "Parked" }]);
  });

  it("folds a long rest, so that what was done can be seen", () => {
    const given = run({ marks: [mark(120, "paused"), mark(3720, "resume")] });
    const rests = restsOf(given, 3740);
    const axis = axisOf(given, 3740, rests);

    expect(axis.at(100)).toBe(0);
    expect(axis.at(3740)).toBeCloseTo(1);
    expect(axis.at(120)).toBeGreaterThan(0.4);
    expect(axis.at(3720) - axis.at(120)).toBeLessThan(0.11);
  });

  it("never runs backwards", () => {
    const given = run({ marks: [mark(120, "paused"), mark(900, "resume"), mark(930, "cap"), mark(2000, "limits")] });
    const axis = axisOf(given, 2100, restsOf(given, 2100));
    const places = Array.from({ length: 400 }, (_, i) => axis.at(100 + i * 5));

    expect(places).toEqual([...places].sort((a, b) => a - b));
  });

  it("gives steps that overlap lanes of their own", () => {
    const steps = [step("a", { started_at: 100, ended_at: 120 }), step("b", { started_at: 110, ended_at: 130 }), step("c", { started_at: 125, ended_at: 140 })];

    expect(spansOf(run({ steps }), 150).map((span) => span.lane)).toEqual([0, 1, 0]);
  });

  it("does not claim to know when a read began", () => {
    expect(spansOf(run({ steps: [step("a", { ended_at: 120 })] }), 150)[0]).toMatchObject({ from: null, after: 100, to: 120 });
  });

  it("has as many figures as there is room for", () => {
    const axis = axisOf(run(), 700, []);

    expect(ticks(axis, 6).map((tick) => tick.text)).toEqual(["0:00", "2:00", "4:00", "6:00", "8:00", "10:00"]);
  });
});
