/** What the page, its sound thread and the server say to each other, and how it is put in words. Pure. */
export const RATE = 16_000;
export const FRAME = 512;
const HEADER = 4;

export type Cut = { t: "cut"; number?: number }; // a server of before gives none
export type ToWorklet = ArrayBuffer | "hold" | "go on" | Cut | { t: "latency"; seconds: number };
export type FromWorklet = { silenced: number; number: number | undefined } | { played: number; heard: Int16Array; level: number };

export type FromServer =
  | { t: "hold" | "go on" }
  | Cut
  | { t: "floor"; floor: Floor }
  | { t: "outcome"; outcome: string; heard?: string; confidence?: number | null }
  | { t: "saying"; text: string; cut?: boolean }
  | { t: "handed"; to: string }
  | { t: "did"; act: string; text?: string }
  | { t: "trouble"; text: string; instead?: string };

export type Floor = "quiet" | "speaking" | "held" | "hearing" | "judging";
export type Mode = "hands-free" | "push";

/** How much was played, and what was heard: nothing while a key is to be pressed and is not. */
export function frame(played: number, heard: Int16Array | null): ArrayBuffer {
  const bytes = new ArrayBuffer(HEADER + (heard ? heard.length * 2 : 0));
  const view = new DataView(bytes);
  view.setUint32(0, played, true);
  heard?.forEach((sample, place) => view.setInt16(HEADER + place * 2, sample, true));
  return bytes;
}

const EARLY_FRAMES = 640; // twenty seconds: longer no line takes to open
const AT_ONCE = 31; // frames, a second of sound

/** What is said while the line is still being opened, to be heard when it is. */
export class Early {
  private frames: Int16Array[] = [];

  keep(frame: Int16Array): void {
    if (this.frames.length < EARLY_FRAMES) this.frames.push(frame);
  }

  /** All of it in large pieces, and nothing of it twice. */
  taken(): Int16Array[] {
    const frames = this.frames.splice(0);
    const pieces: Int16Array[] = [];
    for (let first = 0; first < frames.length; first += AT_ONCE) {
      const some = frames.slice(first, first + AT_ONCE);
      const piece = new Int16Array(some.length * FRAME);
      some.forEach((sound, place) => piece.set(sound, place * FRAME));
      pieces.push(piece);
    }
    return pieces;
  }
}

/** `written` is what could not be spoken: it counts as heard, so it stands there until somebody says something. */
export type Shown = { floor: Floor; outcome: string; heard: string; trouble: string; written: string; with: string };
export const NOTHING_YET: Shown = { floor: "quiet", outcome: "", heard: "", trouble: "", written: "", with: "" };
export const troubleInWords = (shown: Shown): string => [shown.trouble, shown.written].filter(Boolean).join(" ");
const WORDS: ReadonlySet<string> = new Set(["heard", "interrupted"]);

const FLOORS: Record<Floor, string> = {
  quiet: "Listening",
  speaking: "Speaking",
  held: "Held while you speak",
  hearing: "You are speaking",
  judging: "One moment",
};

export const floorInWords = (floor: Floor, mode: Mode): string => (floor === "quiet" && mode === "push" ? "Hold the key to talk" : FLOORS[floor]);

const OUTCOMES: Record<string, string> = {
  resumed: "Went on where it was",
  interrupted: "Interrupted",
  "asked again": "Not understood: say it again",
  "asked if meant": "Taken for a remark: say it again if it is for the agent",
  heard: "Heard",
};

/** The screen after one more message of the server. */
export function after(shown: Shown, said: FromServer): Shown {
  switch (said.t) {
    case "floor":
      return { ...shown, floor: said.floor };
    case "outcome":
      if (said.outcome === "ignored") return shown; // it was nothing, and what was heard before still was
      return { ...shown, outcome: OUTCOMES[said.outcome] ?? said.outcome, heard: said.heard ?? "", trouble: "", written: WORDS.has(said.outcome) ? "" : shown.written };
    case "handed":
      return { ...shown, with: said.to };
    case "trouble":
      return { ...shown, trouble: said.text, written: [shown.written, said.instead?.trim()].filter(Boolean).join(" ") };
    case "did":
      return said.text ? { ...shown, outcome: said.text } : shown;
    default:
      return shown;
  }
}
