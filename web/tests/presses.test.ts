import { describe, expect, it } from "vitest";
import { drop, keep, sorted, type Press } from "../src/model/presses";

const press = (verb: string, at = 0, key = verb): Press => ({ run: "r-1", verb, body: {}, key, at, label: verb });

describe("presses while the line is lost", () => {
  it("a pause is sent however old it is", () => {
    expect(sorted([press("pause")], 600_000).send).toHaveLength(1);
  });

  it("a cancel, redirect or resume is sent while it is fresh, and asks again after 30 seconds", () => {
    const costly = [press("cancel"), press("redirect"), press("resume")];

    expect(sorted(costly, 29_000)).toEqual({ send: costly, ask: [] });
    expect(sorted(costly, 30_000)).toEqual({ send: [], ask: costly });
  });

  it("the last of pause and resume counts, and a verb waits only once", () => {
    const kept = [press("pause", 1), press("cancel", 2), press("resume", 3), press("cancel", 4, "again")].reduce(keep, [] as readonly Press[]);

    expect(kept.map((each) => each.key)).toEqual(["resume", "again"]);
  });

  it("a pause that fails late does not push out the resume that was pressed after it", () => {
    const kept = keep([press("resume", 3)], press("pause", 1));

    expect(kept.map((each) => each.verb)).toEqual(["resume"]);
  });

  it("answers to two questions both wait, and of two to one question the later", () => {
    const about = (question: number, verb: string, key: string, at: number): Press => ({ ...press(verb, at, key), body: { question, payload: key } });
    const given = [about(7, "answer", "yes", 1), about(8, "answer", "no", 2), about(7, "answer", "on second thoughts", 3), about(8, "decline", "skip", 4)];

    expect(given.reduce(keep, [] as readonly Press[]).map((each) => each.key)).toEqual(["on second thoughts", "skip"]);
  });

  it("two effects that are to be undone, or stopped, both wait", () => {
    const undo = (effect: number): Press => ({ ...press("undo", effect, `undo ${effect}`), body: { effects: [effect] } });
    const stop = (attempt: number): Press => ({ ...press("stop_effect", attempt, `stop ${attempt}`), body: { attempt } });

    expect([undo(3), undo(4), stop(5), stop(6)].reduce(keep, [] as readonly Press[])).toHaveLength(4);
  });

  it("can be taken back", () => {
    expect(drop([press("pause"), press("cancel")], "pause").map((each) => each.verb)).toEqual(["cancel"]);
  });
});
