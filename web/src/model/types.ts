/** What the server tells; see src/generated/types.ts. Named here as the page names it. */
export type Phase =
  | "queued" | "running" | "pausing" | "paused" | "waiting" | "cancelling"
  | "done" | "failed" | "cancelled" | "killed";

export type StepStatus =
  | "queued" | "running" | "paused" | "waiting" | "done" | "failed" | "retrying" | "cancelled"
  | "skipped" | "undoing" | "undone" | "undo_failed" | "kept";

export interface Offer { verb: string; label: string; enabled: boolean; consequence: string; confirm?: string }
export interface Limits {
  steps?: number | null; seconds?: number | null; tokens?: number | null;
  usd?: number | null; tool_calls?: number | null; repeats?: number | null;
}
export interface Spent { steps: number; tool_calls: number; tokens: number; usd: number; unpriced: number; seconds: number }
export interface Asked {
  question: number; kind: string; message: string; schema: unknown;
  about: number; expires_at: number | null; answerers: string[];
}
export interface InFlight { position: number; name: string; noun: string; effect: string; irreversible: boolean; can_be_stopped: boolean }
export interface ReceiptLine { position: number; noun: string; word: string; why: string; earlier: boolean }
export interface Receipt { run: string; phase: Phase; lines: ReceiptLine[]; saved: string[]; inherited: string[] }

export interface StepSheet {
  id: string; position: number; name: string; status: StepStatus; word: string; tool: string; noun: string;
  effect: string; irreversible: boolean; started_at: number | null; ended_at: number | null; seconds: number;
  usd: number | null; tokens: number; attempt: number; tries: number; summary: string; error: string;
  question: number; child: string; rewritten: boolean; can_be_stopped: boolean;
}
export interface Change { at: number; by: string; was: string; now: string; applied: boolean }
export interface Mark { at: number; kind: string; text: string; by: string }
export interface Background { run: string; title: string; phase: Phase; started_at: number; ended_at: number | null; status: string }

export interface RunSheet {
  run: string; head: number; position: number; thread: string; agent: string; title: string; brief: string;
  profile: string; parent: string; fork_of: string; mode: string; phase: Phase; status: string; holds: string[];
  human: string; created_at: number; updated_at: number; plan: string[]; limits: Limits; spent: Spent;
  questions: Asked[]; in_flight: InFlight[]; children: Record<string, string>; notices: [string, string][];
  error: string; preview: Record<string, Offer>; receipt: Receipt; steps: StepSheet[]; changes: Change[];
  marks: Mark[]; spend: [number, number, number][]; background: Background[]; result: string;
  ended_at: number | null; ended_by: string; failed_step: string;
}

export interface Line {
  position: number; at: number; kind: string; text: string; by: string; role: string; run: string;
  message: number; choice: string; why: string; todo: number; status: string; settled: number;
}
export interface TodoOffer { todo: number; kind: string; text: string; note: string; run: string; message: number; now: string; remove: string }
export interface Unread { message: number; text: string; by: string; role: string; choice: string; at: number }
export interface Row {
  journal: string; kind: string; head: number; thread: string; agent: string; parent: string; title: string;
  phase: Phase; open_questions: number; created_at: number; updated_at: number; steps: number; tokens: number; usd: number;
}
export interface ThreadSheet {
  thread: string; head: number; title: string; front: string; hosted: boolean;
  lines: Line[]; todos: TodoOffer[]; unread: Unread[]; runs: Row[];
}
export interface Switch { scope: string; by: string; at: number; reason: string }
export interface Me { by: string; role: "viewer" | "controller" | "operator"; agents: string[]; server: { version: string; store: string } }
export interface Accepted { run: string; verb: string; position: number; in_flight: string[]; status: string; did: string; target: string }
export interface Problem { error: string; message: string; changed: boolean | null; state?: unknown }

export type Sheet = RunSheet | ThreadSheet;
export const isRun = (sheet: Sheet): sheet is RunSheet => "phase" in sheet;

export const ENDED: ReadonlySet<string> = new Set(["done", "failed", "cancelled", "killed"]);
export const MOVING: ReadonlySet<string> = new Set(["running", "pausing", "cancelling"]);
