import { describe, expect, it } from "vitest";
import { shortDiff, wordDiff } from "../src/model/diff";

const shown = (was: string, now: string): string =>
  wordDiff(was, now).map((piece) => ({ same: piece.text, removed: `~${piece.text}~`, added: `=${piece.text}=` })[piece.kind]).join(" ");

describe("a change by words", () => {
  it("marks what was removed and what was added", () => {
    expect(shown("Hold a table", "Hold the garden room")).toBe("Hold ~a table~ =the garden room=");
    expect(shown("Hold a table", "Hold a table")).toBe("Hold a table");
    expect(shown("", "Hold")).toBe("=Hold=");
    expect(shown("Hold a table at six", "Hold a big table at six")).toBe("Hold a =big= table at six");
    expect(shown("a b c d", "a x c y")).toBe("a ~b~ =x= c ~d~ =y=");
  });

  it("is whole: without what was added it is the old text, without what was removed the new one", () => {
    const words = ["eu", "us", "only", "and", "trials", "send", "memo"];
    for (let seed = 1; seed < 200; seed++) {
      const pick = (n: number) => Array.from({ length: (seed * n) % 9 }, (_, i) => words[(seed * (i + n) * 7) % words.length]).join(" ");
      const [was, now] = [pick(3), pick(5)];
      const pieces = wordDiff(was, now);
      const without = (kind: string) => pieces.filter((piece) => piece.kind !== kind).map((piece) => piece.text).join(" ");
      expect([without("added"), without("removed")]).toEqual([was, now]);
    }
  });

  it("leaves out in one line what stayed at both ends", () => {
    expect(shortDiff("Hold a table for eight", "Hold the garden room for eight").map((piece) => piece.text)).toEqual(["a table", "the garden room"]);
  });
});
