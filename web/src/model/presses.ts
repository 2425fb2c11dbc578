/**
 * Presses that have not reached the server yet, and what becomes of each when the line is back.
 *
 * A pause costs nothing and is sent. A cancel or redirect that somebody wanted half a minute ago may not be what
 * they want now: it asks for one confirming press.
 */
export interface Press {
  run: string;
  verb: string;
  body: Record<string, unknown>;
  key: string;
  at: number; // local milliseconds
  label: string;
}

export const STALE_MS = 30_000;
const COSTLESS: ReadonlySet<string> = new Set(["pause", "resume"]);

export type Presses = readonly Press[];

/** A new press. A pause and its taking back cancel each other out; the same verb again is the newest one. */
export function keep(presses: Presses, press: Press): Presses {
  const others = presses.filter((each) => each.run !== press.run || !sameSlot(each.verb, press.verb));
  return [...others, press];
}

function sameSlot(a: string, b: string): boolean {
  return a === b || (COSTLESS.has(a) && COSTLESS.has(b));
}

export function drop(presses: Presses, key: string): Presses {
  return presses.filter((press) => press.key !== key);
}

/** Back online at `now`: what is sent at once, and what asks again. */
export function sorted(presses: Presses, now: number): { send: Press[]; ask: Press[] } {
  const asks = (press: Press) => !COSTLESS.has(press.verb) && now - press.at >= STALE_MS;
  return { send: presses.filter((press) => !asks(press)), ask: presses.filter(asks) };
}

/** What the bar says about a press that waits. */
export function waiting(press: Press): string {
  return `${press.label} will be sent`;
}
