import { describe, expect, test } from "vitest";
import { after, floorInWords, frame, NOTHING_YET } from "../src/voice/talk";

describe("what goes over the line", () => {
  test("a frame begins with how much was played, and then has the sound", () => {
    const bytes = new DataView(frame(70_000, Int16Array.of(1, -2, 32_767)));
    expect(bytes.getUint32(0, true)).toBe(70_000);
    expect([bytes.getInt16(4, true), bytes.getInt16(6, true), bytes.getInt16(8, true)]).toEqual([1, -2, 32_767]);
  });

  test("while the key is not pressed there is no sound in it", () => {
    expect(frame(5, null).byteLength).toBe(4);
  });
});

describe("what the screen says", () => {
  test("whose turn it is", () => {
    expect(after(NOTHING_YET, { t: "floor", floor: "held" }).floor).toBe("held");
    expect(floorInWords("held", "hands-free")).toBe("Held while you speak");
    expect(floorInWords("quiet", "push")).toBe("Hold the key to talk");
  });

  test("what was heard stays until something else is", () => {
    const heard = after(NOTHING_YET, { t: "outcome", outcome: "resumed", heard: "Yeah." });
    expect(heard).toMatchObject({ outcome: "Went on where it was", heard: "Yeah." });
    expect(after(heard, { t: "outcome", outcome: "interrupted" })).toMatchObject({ outcome: "Interrupted", heard: "Yeah." });
  });

  test("trouble comes with the text that could not be spoken, and goes with the next words", () => {
    const trouble = after(NOTHING_YET, { t: "trouble", text: "I cannot speak.", instead: "It grew." });
    expect(trouble.trouble).toBe("I cannot speak. It grew.");
    expect(after(trouble, { t: "outcome", outcome: "heard", heard: "Go on." }).trouble).toBe("");
  });
});
