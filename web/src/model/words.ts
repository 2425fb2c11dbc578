/** Times, money and counts as people read them. */
import { ENDED, type RunSheet, type StepSheet } from "./types";

const two = (n: number): string => String(n).padStart(2, "0");

/** 0:21, 12:40, 1:02:03. */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

/** 02:01 in the bar, where its width must not change. */
export const barClock = (seconds: number): string => clock(seconds).padStart(5, "0");

export function ago(seconds: number): string {
  if (seconds < 60) return "just now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

export function timeLeft(seconds: number): string {
  if (seconds <= 0) return "expired";
  if (seconds < 90) return `${Math.ceil(seconds)} s left`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min left`;
  return `${Math.round(seconds / 3600)} h left`;
}

export const money = (usd: number): string => (usd > 0 && usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`);

export function count(n: number, noun: string): string {
  return `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
}

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Characters that turn the direction of reading, and those that show nothing and are needed by no script. */
const UNSEEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]/g;

/** With a sign in place of each character that hides, or turns the direction of reading: it would turn our words beside it, too. */
export const straight = (text: string): string => text.replace(UNSEEN, "\ufffd");

export const oneLine = (text: string): string => straight(text).replace(/\s+/g, " ").trim();

/** 21:04, in the zone of who looks. */
export function hour(at: number): string {
  const when = new Date(at * 1000);
  return `${two(when.getHours())}:${two(when.getMinutes())}`;
}

const TITLE_MAX = 90;

/** Its title, or the beginning of its brief. */
export function titleOf(run: RunSheet): string {
  const text = oneLine(run.title || run.brief);
  return text.length > TITLE_MAX ? `${text.slice(0, TITLE_MAX - 1)}…` : text;
}

const CURRENT: ReadonlySet<string> = new Set(["running", "paused", "waiting", "retrying", "undoing", "lost"]);

export const isCurrent = (step: StepSheet): boolean => CURRENT.has(step.status);

/** The step at which it stands: what it reads between two steps is on record only when it is read. */
export function standing(run: RunSheet): number {
  const current = run.steps.findIndex(isCurrent);
  return current >= 0 || ENDED.has(run.phase) ? current : run.steps.findLastIndex((step) => step.position > 0);
}

/** Where it is: step 3 of 6. */
export function place(run: RunSheet): string {
  const total = run.steps.length;
  if (total === 0) return "no step yet";
  const at = run.steps.findIndex(isCurrent);
  const begun = run.steps.filter((step) => step.position > 0).length;
  const queued = total > begun;
  const number = at >= 0 ? at + 1 : Math.max(1, begun);
  return queued || at >= 0 || run.plan.length > 0 ? `step ${number} of ${total}` : count(total, "step");
}

/** The working time of a run: counts on while it moves and somebody drives it. */
export function worked(run: RunSheet, now: number): number {
  const ticks = run.moving_since !== null && run.undriven_since === null;
  return run.spent.seconds + (ticks ? Math.max(0, now - run.updated_at) : 0);
}
