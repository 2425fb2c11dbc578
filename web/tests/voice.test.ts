import { describe, expect, test } from "vitest";
import { Listener, Player } from "../src/voice/sound";
import { after, Early, floorInWords, frame, FRAME, NOTHING_YET, RATE, troubleInWords } from "../src/voice/talk";

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

  test("what came of a sound stands beside its own words, never beside earlier ones", () => {
    const heard = after(NOTHING_YET, { t: "outcome", outcome: "resumed", heard: "Yeah." });
    expect(heard).toMatchObject({ outcome: "Went on where it was", heard: "Yeah." });
    const remark = after(heard, { t: "outcome", outcome: "asked if meant", heard: "Who knew?" });
    expect(remark).toMatchObject({ outcome: "Taken for a remark: say it again if it is for the agent", heard: "Who knew?" });
    expect(after(heard, { t: "outcome", outcome: "interrupted" })).toMatchObject({ outcome: "Interrupted", heard: "" });
  });

  test("with whom the run is", () => {
    const handed = after(NOTHING_YET, { t: "handed", to: "bob" });
    expect(handed.with).toBe("bob");
    expect(after(handed, { t: "handed", to: "" }).with).toBe("");
  });

  test("trouble comes with the text that could not be spoken, and goes with the next words", () => {
    const trouble = after(NOTHING_YET, { t: "trouble", text: "I cannot speak.", instead: "It grew." });
    expect(troubleInWords(trouble)).toBe("I cannot speak. It grew.");
    expect(troubleInWords(after(trouble, { t: "outcome", outcome: "heard", heard: "Go on." }))).toBe("");
  });
});

test("all texts that could not be spoken stay there, whatever else is told, until somebody says something", () => {
  let shown = NOTHING_YET;
  for (const instead of ["It grew. ", "By a third.", " In Spain"]) shown = after(shown, { t: "trouble", text: "I cannot speak.", instead });
  expect(troubleInWords(shown)).toBe("I cannot speak. It grew. By a third. In Spain");

  shown = after(shown, { t: "trouble", text: "The microphone is mute." });
  expect(troubleInWords(shown)).toBe("The microphone is mute. It grew. By a third. In Spain");
  shown = after(shown, { t: "outcome", outcome: "resumed", heard: "Mhm." }); // nobody has read it for that
  expect(troubleInWords(shown)).toBe("It grew. By a third. In Spain");
  expect(troubleInWords(after(shown, { t: "outcome", outcome: "interrupted" }))).toBe("");
});

describe("what is said while the line is being opened", () => {
  test("is kept in its order, and given once", () => {
    const early = new Early();
    for (let number = 0; number < 40; number++) early.keep(new Int16Array(FRAME).fill(number));

    const sound = early.taken().flatMap((piece) => [...piece]);

    expect(sound.length).toBe(40 * FRAME);
    expect(sound.filter((_, place) => place % FRAME === 0)).toEqual([...Array(40).keys()]);
    expect(early.taken()).toEqual([]);
  });

  test("is never more than the line could take at once", () => {
    const early = new Early();
    for (let number = 0; number < 2_000; number++) early.keep(new Int16Array(FRAME));

    const pieces = early.taken();

    expect(Math.max(...pieces.map((piece) => piece.byteLength))).toBeLessThan(2 * RATE * 2);
    expect(pieces.reduce((sum, piece) => sum + piece.length, 0)).toBe(640 * FRAME);
  });
});

const tone = (rate: number, hertz: number, seconds: number) => Float32Array.from({ length: rate * seconds }, (_, at) => 0.5 * Math.sin((2 * Math.PI * hertz * at) / rate));
const level = (sound: Iterable<number>) => Math.sqrt([...sound].reduce((sum, sample) => sum + sample * sample, 0) / [...sound].length);


function heard(rate: number, sound: Float32Array): number[] {
  const frames: number[] = [];
  const listener = new Listener(rate, (frame) => frames.push(...[...frame].map((sample) => sample / 32_767)));
  for (let at = 0; at < sound.length; at += 128) listener.hear(sound.slice(at, at + 128));
  return frames;
}

test.each([44_100, 48_000])("a microphone of %i samples a second does not whistle with what the line cannot render", (rate) => {
  expect(level(heard(rate, tone(rate, 11_000, 1)).slice(FRAME))).toBeLessThan(0.005);
});

describe.each([16_000, 44_100, 48_000])("a browser whose sound has %i samples a second", (rate) => {
  test("is heard at the line's rate, as high and as loud as it was", () => {
    const frames = heard(rate, tone(rate, 1_000, 1));
    const crossings = frames.filter((sample, at) => at > 0 && sample >= 0 && frames[at - 1]! < 0).length;

    expect(Math.abs(frames.length - RATE)).toBeLessThanOrEqual(FRAME);
    expect(Math.abs(crossings - (1_000 * frames.length) / RATE)).toBeLessThanOrEqual(1);
    expect(level(frames.slice(FRAME))).toBeCloseTo(0.5 / Math.SQRT2, 2);
  });

  test("plays the line's sound at its own rate, and counts the line's samples", () => {
    const player = new Player(rate);
    player.add(Int16Array.from(tone(RATE, 1_000, 0.5), (sample) => sample * 32_767));
    const out: number[] = [];
    for (let at = 0; at < rate; at += 128) {
      const piece = new Float32Array(128);
      player.fill(piece);
      out.push(...piece);
    }
    const sounding = out.slice(100, rate / 2 - 100);

    expect(player.played).toBe(RATE / 2);
    expect(level(sounding)).toBeCloseTo(0.5 / Math.SQRT2, 2);
    expect(level(out.slice(rate / 2 + 200))).toBe(0);
  });

  test("counts a sample once it is heard, which is later than it is rendered", () => {
    const player = new Player(rate);
    player.delay = rate / 5; // headphones without a wire
    player.add(new Int16Array(RATE).fill(1_000));
    const render = (seconds: number) => {
      for (let at = 0; at < rate * seconds; at += 100) player.fill(new Float32Array(100));
    };
    render(0.15);
    expect(player.played).toBe(0);
    render(0.25);
    expect(Math.abs(player.played - RATE / 5)).toBeLessThanOrEqual(100);

    player.held = true;
    render(0.3); // what was on its way is heard
    expect(Math.abs(player.played - RATE * 0.4)).toBeLessThanOrEqual(100);
  });

  test("has on its way, when it is cut, what will be heard all the same", () => {
    const player = new Player(rate);
    player.delay = rate / 5;
    player.add(new Int16Array(RATE).fill(1_000));
    for (let at = 0; at < rate * 0.4; at += 100) player.fill(new Float32Array(100));
    expect(Math.abs(player.cut() - RATE * 0.4)).toBeLessThanOrEqual(100);
  });

  test("goes on at the same sample after a hold, and counts on after a cut", () => {
    const player = new Player(rate);
    player.add(new Int16Array(RATE).fill(1_000));
    player.fill(new Float32Array(rate / 4));
    player.held = true;
    const before = player.played;
    player.fill(new Float32Array(rate / 4));
    expect(player.played).toBe(before);
    player.held = false;
    player.fill(new Float32Array(rate / 4));
    const played = player.cut();

    expect(Math.abs(played - RATE / 2)).toBeLessThanOrEqual(1);
    player.fill(new Float32Array(rate / 4));
    expect(player.played).toBe(played);
    player.add(new Int16Array(100));
    player.fill(new Float32Array(rate));
    expect(player.played).toBe(played + 100);
  });
});
