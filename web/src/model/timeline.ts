/** A run over time: its steps, when it rested, who interfered and what it spent. Long rests are folded. */
import type { Mark, RunSheet, StepSheet } from "./types";
import { capital, clock, isCurrent, straight } from "./words";

export interface Rest { from: number; to: number; word: string }
export interface Fold { from: number; to: number }
/** `from` is null for a read: only its end is on record, and it began at `after` at the earliest. */
export interface Span { step: StepSheet; number: number; from: number | null; after: number; to: number; lane: number }

export interface Axis {
  from: number;
  to: number;
  folds: Fold[];
  at(time: number): number; // 0 to 1
}

/** What holds it from a mark of this kind on, and how that is called. */
const BEGINS: Record<string, [cause: string, word: string]> = {
  paused: ["user", "Paused"], cap: ["cap", "At the cap"], parked: ["parked", "Parked"], changed: ["stale", "Something had changed"],
  drain: ["drain", "Its server was away"], "take over": ["human", "Taken over"], human: ["human", "Handed to a person"],
};
/** Each end lets go of its own cause alone. */
const ENDS: Record<string, string> = {
  resume: "user", redirected: "user", limits: "cap", "hand back": "human",
  "lifted parked": "parked", "lifted stale": "stale", "lifted drain": "drain", "lifted human": "human", "lifted cap": "cap",
};
const ENDS_ALL: ReadonlySet<string> = new Set(["recover", "cancel", "kill", "end"]);
const FOLD_SHARE = 0.25; // a rest longer than this part of the work is folded
const FOLDED_SHARE = 0.1; // to this part of the width, which has room for how long it was
const LANES_MAX = 4;

/** The stretches in which it was held or waited; two that overlap are one. */
export function restsOf(run: RunSheet, until: number): Rest[] {
  const rests: Rest[] = [];
  const held = new Held();
  let open: Rest | null = null;
  for (const mark of [...run.marks].sort((a, b) => a.at - b.at)) {
    const word = held.hear(mark, mark.kind === "question" && worksAt(run, mark));
    if (!open && word) open = { from: mark.at, to: until, word };
    if (!open || held.rests) continue;
    rests.push({ ...open, to: mark.at });
    open = null;
  }
  if (open) rests.push(open);
  return rests.filter((rest) => rest.to > rest.from);
}

/** All that holds it at a time: it works again when the last of them has let go. */
class Held {
  private readonly causes = new Set<string>();
  private questions = 0;
  private pausing = false;
  private waits = false; // not so for a question that is asked while other steps work

  get rests(): boolean {
    return this.causes.size > 0 || this.waits;
  }

  /** Gives how a rest is called that begins here. */
  hear({ kind }: Mark, works: boolean): string {
    if (ENDS_ALL.has(kind)) this.clear();
    if (kind === "pause") this.pausing = true;
    if (kind === "question") return this.asked(works);
    if (kind === "answer" || kind === "closed") this.answered();
    const ended = ENDS[kind];
    if (ended === "user") this.pausing = false;
    if (ended) this.causes.delete(ended);
    const begun = BEGINS[kind];
    // That it has come to rest is on record whatever held it: only what a person paused waits for a resume.
    if (!begun || (kind === "paused" && !this.pausing && this.causes.size > 0)) return "";
    this.causes.add(begun[0]);
    return begun[1];
  }

  private asked(works: boolean): string {
    this.questions += 1;
    this.waits ||= !works;
    return works ? "" : "Waited for an answer";
  }

  private answered(): void {
    this.questions = Math.max(0, this.questions - 1);
    this.waits &&= this.questions > 0;
  }

  private clear(): void {
    this.causes.clear();
    this.questions = 0;
    this.pausing = this.waits = false;
  }
}

/** A question that is asked while other steps go on is no rest. */
function worksAt(run: RunSheet, mark: Mark): boolean {
  return run.steps.some((step) => step.status !== "waiting" && step.question === 0 && step.started_at !== null && step.started_at < mark.at && (step.ended_at ?? Infinity) > mark.at + 1);
}

export function axisOf(run: RunSheet, until: number, rests: Rest[]): Axis {
  const from = run.created_at;
  const to = Math.max(until, from + 1);
  const rested = rests.reduce((sum, rest) => sum + rest.to - rest.from, 0);
  const work = Math.max(1, to - from - rested);
  const folds = rests.filter((rest) => rest.to - rest.from > work * FOLD_SHARE);
  const left = Math.max(0.3, 1 - folds.length * FOLDED_SHARE);
  const foldWidth = folds.length ? (1 - left) / folds.length : 0;
  const unfolded = to - from - folds.reduce((sum, fold) => sum + fold.to - fold.from, 0);
  const at = (time: number): number => {
    let seconds = 0;
    let share = 0;
    let here = from;
    for (const fold of folds) {
      if (time <= fold.from) break;
      seconds += fold.from - here;
      share += foldWidth * Math.min(1, (time - fold.from) / (fold.to - fold.from));
      here = Math.min(time, fold.to);
    }
    seconds += Math.max(0, Math.min(time, to) - here);
    return Math.min(1, Math.max(0, (seconds / Math.max(unfolded, 0.001)) * left + share));
  };
  return { from, to, folds, at };
}

/** Steps that took time, each in the first lane that is free. */
export function spansOf(run: RunSheet, until: number): Span[] {
  const free: number[] = [];
  let before = run.created_at;
  return run.steps.flatMap((step, index) => {
    if (step.position === 0 && !isCurrent(step)) return [];
    const to = step.ended_at ?? until;
    const from = step.started_at ?? (step.seconds === null ? null : to - step.seconds);
    const after = Math.min(before, to);
    let lane = free.findIndex((busy) => busy <= (from ?? after) + 0.001);
    if (lane < 0) lane = free.length < LANES_MAX ? free.length : LANES_MAX - 1;
    free[lane] = before = to;
    return [{ step, number: index + 1, from, after, to, lane }];
  });
}

/** Round figures for the axis, as many as there is room for. */
export function ticks(axis: Axis, room: number): { at: number; text: string }[] {
  const length = axis.to - axis.from;
  const size = [1, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400].find((each) => length / each <= room) ?? 86_400 * 7;
  const found: { at: number; text: string }[] = [];
  let last = -1;
  for (let time = 0; time <= length; time += size) {
    const at = axis.at(axis.from + time);
    const folded = axis.folds.some((fold) => axis.from + time > fold.from && axis.from + time < fold.to);
    if (folded || at - last < 0.6 / room) continue;
    found.push({ at, text: clock(time) });
    last = at;
  }
  return found;
}

const WORDS: Record<string, string> = {
  redirect: "Redirect", redirected: "Now works on", question: "Asked", cap: "Cap", parked: "Parked", notice: "Notice", changed: "Held", closed: "Closed",
};

/** What happened, in words, for the list under the picture and for who cannot see it. */
export function happened(run: RunSheet): { at: number; text: string }[] {
  const told = run.marks.filter((mark, at) => mark.kind !== "question" || run.marks[at - 1]?.text !== mark.text); // a cap asks in its own words
  return told.map((mark) => {
    const word = WORDS[mark.kind];
    const said = straight(mark.text);
    const text = word ? `${word}: ${said}` : capital(said);
    return { at: mark.at, text: mark.by ? `${text} (${mark.by})` : text };
  });
}
