/** The caps of a run as somebody raises them: which there are, what is offered, and what is read from the fields. */
import type { Limits } from "./types";

export type CapName = keyof Limits;

export const CAPS: readonly [CapName, string][] = [
  ["usd", "Money, $"], ["tokens", "Tokens"], ["steps", "Steps"],
  ["seconds", "Seconds of work"], ["tool_calls", "Tool calls"], ["repeats", "Repeats"],
];

const IN_PARTS: ReadonlySet<string> = new Set(["usd", "seconds"]); // the others are counted

/** Half as much again, as a round figure; of nothing, one. */
export function raised(name: CapName, cap: number): number {
  const more = cap * 1.5 || 1;
  const cents = Number((more * 100).toFixed(6)); // 0.4 * 1.5 is a little more than 0.6
  return more >= 10 || !IN_PARTS.has(name) ? Math.ceil(more) : Math.ceil(cents) / 100;
}

/** The caps that are meant, or what is wrong with them: an empty field means no number, and least of all zero. */
export function capsOf(fields: Readonly<Record<string, string>>): { limits: Limits } | { wrong: string } {
  const limits: Record<string, number> = {};
  for (const [name, label] of CAPS) {
    const text = fields[name]?.trim().replace(/^\$/, "");
    if (text === undefined) continue;
    const cap = Number(text);
    if (text === "") return { wrong: `${label}: this cap is empty. Write a number, or keep it as it is.` };
    if (!Number.isFinite(cap) || cap < 0) return { wrong: `${label}: “${text}” is not a number of zero or more.` };
    if (!IN_PARTS.has(name) && !Number.isInteger(cap)) return { wrong: `${label}: “${text}” is not a whole number.` };
    limits[name] = cap;
  }
  return { limits };
}
