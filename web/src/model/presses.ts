import type { Draft } from "./drafts";

/**
 * Presses that have not reached the server yet, and what becomes of each when the line is back.
 *
 * A pause costs nothing and is sent. Anything else that somebody wanted half a minute ago may not be what they
 * want now: it asks for one confirming press.
 */
export interface Press {
  run: string;
  verb: string;
  body: Record<string, unknown>;
  key: string;
  at: number; // local milliseconds
  label: string;
  unsure?: boolean; // sent once, and no answer came in time
  layer?: "redirect" | "raise" | "hand back"; // where it was typed, which opens again if it is refused
  draft?: Draft; // let go of once the server has accepted it
}

export const STALE_MS = 30_000;
const COSTLESS = "pause";
const OPPOSITES: ReadonlySet<string> = new Set(["pause", "resume"]);

export type Presses = readonly Press[];

/**
 * Of one verb only the newest press waits, and of pause and resume only the later one, whichever failed last.
 * What is about one question or one effect does not push out what is about another.
 */
export function keep(presses: Presses, press: Press): Presses {
  const rivals = presses.filter((each) => each.run === press.run && areRivals(each, press));
  if (rivals.some((each) => each.at > press.at)) return presses;
  return [...presses.filter((each) => !rivals.includes(each)), press];
}

function areRivals(a: Press, b: Press): boolean {
  if (OPPOSITES.has(a.verb) && OPPOSITES.has(b.verb)) return true;
  return slotOf(a.verb) === slotOf(b.verb) && subject(a) === subject(b);
}

/** A question is answered or skipped. */
const slotOf = (verb: string): string => (verb === "decline" ? "answer" : verb);

/** The question, the effects or the attempt that a press is about, if it is not about the whole run. */
const subject = ({ body }: Press): string => JSON.stringify([body["question"], body["effects"], body["attempt"]]);

export function drop(presses: Presses, key: string): Presses {
  return presses.filter((press) => press.key !== key);
}

/** Back online at `now`: what is sent at once, and what asks again. */
export function sorted(presses: Presses, now: number): { send: Press[]; ask: Press[] } {
  const asks = (press: Press) => press.verb !== COSTLESS && now - press.at >= STALE_MS;
  return { send: presses.filter((press) => !asks(press)), ask: presses.filter(asks) };
}

/** What the bar says before a press that would have to wait. */
export function willWait(verb: string): string {
  return verb === COSTLESS ? "Sent when back online" : `Sent when back; asks after ${STALE_MS / 1000} s`;
}

/** What the bar says about a press that waits. */
export function waiting(press: Press): string {
  return `${press.label} will be sent`;
}
