/** What a kill switch covers, in words, and which of the runs that are known it would stop. */
import { ENDED, type Row, type RunSheet } from "./types";
import { capital, count } from "./words";

const IN_MOTION: ReadonlySet<string> = new Set(["running", "pausing", "cancelling"]);
const ASIDE = ".aside"; // who answers for an agent aside is stopped with it

export interface Scope { scope: string; choice: string }

/** What an operator may stop from where they are: everything, or what the open run belongs to. */
export function scopesAt(run: RunSheet | undefined): Scope[] {
  const everything = { scope: "all", choice: "Everything" };
  if (!run) return [everything];
  const agent = run.agent.replace(/\.aside$/, "");
  return [everything, { scope: `agent:${agent}`, choice: `Agent ${agent}` }, { scope: `thread:${run.thread}`, choice: "This thread" }];
}

export function covers(scope: string, row: Row): boolean {
  if (row.kind !== "run") return false;
  const [kind, name] = parts(scope);
  if (kind === "agent") return row.agent === name || row.agent === name + ASIDE;
  return kind === "thread" ? row.thread === name : true;
}

/** A kill ends what is in motion. What rests stays as it is, and may not go on. */
export function reached(scope: string, rows: readonly Row[]): { moving: number; resting: number } {
  const mine = rows.filter((row) => covers(scope, row) && !ENDED.has(row.phase));
  const moving = mine.filter((row) => IN_MOTION.has(row.phase)).length;
  return { moving, resting: mine.length - moving };
}

/** `here` is the thread that is open: it needs no name. */
export function named(scope: string, here = ""): string {
  const [kind, name] = parts(scope);
  if (kind === "agent") return `agent ${name}`;
  return kind === "thread" ? (name === here ? "this thread" : `thread ${name}`) : "all agents";
}

const within = (scope: string, here: string): string => {
  const [kind] = parts(scope);
  return kind === "all" ? "" : ` ${kind === "agent" ? "of" : "in"} ${named(scope, here)}`;
};

/** `3 runs of agent report`, or the scope itself where nothing moves. */
export function stopped(scope: string, moving: number, here: string): string {
  return moving ? count(moving, "run") + within(scope, here) : named(scope, here);
}

export function refused(scope: string, here: string): string {
  return `New runs${within(scope, here)} are refused`;
}

export function isStopped(scope: string, here: string): string {
  return `${capital(named(scope, here))} ${scope === "all" ? "are" : "is"} stopped`;
}

function parts(scope: string): [string, string] {
  const at = scope.indexOf(":");
  return at < 0 ? [scope, ""] : [scope.slice(0, at), scope.slice(at + 1)];
}
