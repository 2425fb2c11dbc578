/** A thread as it is shown: who said what, and under each message what became of it. */
import { NOBODY_READS } from "../generated/types";
import { ENDED, type Change, type Line, type RunSheet, type ThreadSheet, type TodoOffer } from "./types";
import { capital } from "./words";

export interface WayBack { label: string; choice: "undo" | "back" | "switch" | "withdraw" }
export interface Outcome { word: string; rest: string; theirs?: string; back: WayBack | null; unread: boolean }

export type Item =
  | { kind: "message"; key: string; line: Line; outcome: Outcome | null }
  | { kind: "brief"; key: string; text: string }
  | { kind: "said"; key: string; line: Line }
  | { kind: "change"; key: string; change: Change }
  | { kind: "note"; key: string; text: string; theirs: string; run: string };

/** The lines of a thread with what belongs to the shown run, in the order in which it happened. */
export function itemsOf(thread: ThreadSheet, run: RunSheet | undefined): Item[] {
  const placed: [number, Item][] = thread.lines.flatMap((line) => {
    const item = itemOf(line, thread, run);
    return item ? [[line.at, item] as [number, Item]] : [];
  });
  const begun = run ? briefOf(run, thread) : null;
  if (run && begun) placed.push([run.created_at, begun]);
  for (const change of run?.changes ?? []) placed.push([change.at, { kind: "change", key: `c${change.at}`, change }]);
  return placed.sort((a, b) => a[0] - b[0]).map(([, item]) => item);
}

function briefOf(run: RunSheet, thread: ThreadSheet): Item | null {
  const text = run.changes[0]?.was ?? run.brief;
  const said = thread.lines.some((line) => line.kind === "message" && line.text.trim() === text.trim());
  return said || run.parent || !text ? null : { kind: "brief", key: "brief", text };
}

function itemOf(line: Line, thread: ThreadSheet, run: RunSheet | undefined): Item | null {
  const key = `l${line.position}`;
  const note = (word: string, theirs: string): Item => ({ kind: "note", key, text: `${word}: ${theirs}`, theirs, run: line.run });
  switch (line.kind) {
    case "message":
      return { kind: "message", key, line, outcome: outcomeOf(line, thread, run) };
    case "question aside":
      return { kind: "message", key, line, outcome: { word: "Asked aside", rest: "", back: null, unread: false } };
    case "todo taken":
      return line.run ? note("Taken up", todoText(line, thread)) : null;
    case "todo removed":
      return note("Removed", todoText(line, thread));
    case "todo: parked":
      return isSwitch(line, thread) ? null : note("Parked", nameIn(thread, line));
    default:
      return line.said && line.text ? { kind: "said", key, line } : null;
  }
}

/** Of what was spoken aloud: what of it people have not heard. */
export function unheardOf(line: Line): string {
  if (line.status === "cut short") return "Cut short: no more of it was heard";
  return line.status === "not heard" ? "Not all of this was heard: it was cut short while it spoke" : "";
}

function todoText(line: Line, thread: ThreadSheet): string {
  const added = thread.lines.find((each) => each.position === line.todo);
  return (added && nameIn(thread, added)) || "a to-do";
}

/** A to-do by the title of the run that it brings back, or by its own text. */
export function nameIn(thread: ThreadSheet, { run, text }: Pick<TodoOffer, "run" | "text">): string {
  return thread.runs.find((row) => row.journal === run)?.title || text;
}

/** Parked for a message that is switched to, under which it is told. */
function isSwitch(line: Line, thread: ThreadSheet): boolean {
  return thread.lines.some((each) => each.kind === "choice" && each.choice === "switch" && Math.abs(each.at - line.at) < 1);
}

/** What was parked for a message that is switched to, if it still is: the to-do comes in the same breath as the choice. */
function parkedFor(chosen: Line | undefined, thread: ThreadSheet): ThreadSheet["todos"][number] | undefined {
  if (!chosen) return undefined;
  const away = (each: Line): number => Math.abs(each.position - chosen.position);
  const made = thread.lines.filter((each) => each.kind === "todo: parked" && Math.abs(each.at - chosen.at) < 1);
  const nearest = made.sort((a, b) => away(a) - away(b))[0]; // before the choice, if a person has made it
  return thread.todos.find((todo) => todo.todo === nearest?.position);
}

/** What became of a message, in a word, and the way back from it. */
export function outcomeOf(line: Line, thread: ThreadSheet, run: RunSheet | undefined): Outcome | null {
  const told = thread.lines.findLast((each) => each.message === line.position && (each.kind === "choice" || each.kind === "overruled"));
  const plain = (word: string, rest = ""): Outcome => ({ word, rest, back: null, unread: false });
  if (line.status === "withdrawn") return plain("Withdrawn");
  if (told?.kind === "overruled" && told.choice === "undo") return plain("Taken out", "again");
  if (told?.kind === "overruled" && told.choice === "back") return plain("Went back", "to what was parked");
  switch (line.choice) {
    case "incorporate":
      // Until the run has read it, there is nothing to take out: it is withdrawn.
      return { ...plain("Incorporated", intoStep(told?.at ?? line.at, run)), back: { label: "Undo", choice: line.status === "read" ? "undo" : "withdraw" } };
    case "switch": {
      const parked = parkedFor(told, thread);
      const theirs = parked ? nameIn(thread, parked) : "";
      const rest = `to this now${theirs && `, ${theirs} parked`}`;
      return { ...plain("Switched", rest), theirs, back: parked ? { label: "Go back", choice: "back" } : null };
    }
    case "defer": {
      const open = thread.todos.some((todo) => todo.message === line.position);
      const rest = open ? `to after ${lastStep(run)}` : "and taken up since";
      return { ...plain("Deferred", rest), back: open ? { label: "Do it now", choice: "switch" } : null };
    }
    case "pause":
      return plain("Paused", "at once");
    case "redirect":
      return plain("Redirected", "to this");
  }
  if (line.status === "read") return plain("Read");
  if (line.status === "put off") return plain("Deferred");
  return { ...plain("Sent", kept(run)), unread: true };
}

function kept(run: RunSheet | undefined): string {
  return run?.phase === "paused" && run.holds.includes("user") ? "kept until you resume" : "";
}

/** The first step that began after the choice: that is where it is read. */
function intoStep(at: number, run: RunSheet | undefined): string {
  const index = run?.steps.findIndex((step, number) => (step.started_at ?? endBefore(run, number)) >= at) ?? -1;
  if (index >= 0) return `into step ${index + 1}`;
  return run && !ENDED.has(run.phase) ? "at the next safe point" : "";
}

/** Only the end of a read is on record: it began when the step before it was over, if that is. */
function endBefore(run: RunSheet, number: number): number {
  return number === 0 ? run.created_at : (run.steps[number - 1]!.ended_at ?? -1);
}

function lastStep(run: RunSheet | undefined): string {
  return run && run.plan.length > 0 && !ENDED.has(run.phase) ? `step ${run.steps.length}` : "this";
}

/** What the composer says about when a message is read. */
export const composerHint = (run: RunSheet, hosted: boolean): string => capital(ENDED.has(run.phase) && !hosted ? NOBODY_READS : run.bar.reads);
