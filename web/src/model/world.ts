/** All that the page knows, and how each piece of news changes it. Pure: the worker and every tab fold the same. */
import { applyPatch, Misfit, type Operation } from "./patch";
import type { Row, Sheet, Switch } from "./types";

export type Connection = "connecting" | "live" | "lost" | "shut";

export interface World {
  readonly connection: Connection;
  readonly lostAt: number | null; // local milliseconds
  readonly why: string;
  readonly offset: number; // seconds to add to the local clock for the server's
  readonly told: number; // server time of the last news
  readonly sheets: Readonly<Record<string, Sheet>>;
  readonly texts: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly rows: Readonly<Record<string, Row>>;
  readonly switches: readonly Switch[];
  readonly gone: Readonly<Record<string, true>>;
}

export type News =
  | { kind: "connection"; state: Connection; why?: string }
  | { kind: "view"; journal: string; at: number; view: Sheet }
  | { kind: "patch"; journal: string; at: number; head: number; patch: Operation[] }
  | { kind: "delta"; journal: string; step: string; attempt: number; offset: number; text: string }
  | { kind: "texts"; journal: string; texts: Record<string, string> }
  | { kind: "row"; at: number; row: Row }
  | { kind: "switches"; at: number; switches: Switch[] }
  | { kind: "gone"; journal: string };

export const NOTHING_KNOWN: World = {
  connection: "connecting", lostAt: null, why: "", offset: 0, told: 0,
  sheets: {}, texts: {}, rows: {}, switches: [], gone: {},
};

const OFFSET_SLACK_S = 0.25; // what the way from the server may take without the clock jumping
const TEXT_MAX = 64_000; // characters of a step that still speaks; the rest is on record
const TEXTS_MAX = 8; // steps whose words are kept for each journal

/** `now` is local milliseconds. Throws Misfit for a patch of something else than what is known. */
export function hear(world: World, news: News, now: number): World {
  switch (news.kind) {
    case "connection":
      return connected(world, news.state, news.why ?? "", now);
    case "view":
      return { ...timed(world, news.at, now), sheets: { ...world.sheets, [news.journal]: news.view } };
    case "patch":
      return { ...timed(world, news.at, now), sheets: patched(world, news) };
    case "delta":
      return { ...world, texts: said(world, news) };
    case "texts":
      return { ...world, texts: { ...world.texts, [news.journal]: news.texts } };
    case "row":
      return { ...timed(world, news.at, now), rows: newer(world.rows, [news.row]) };
    case "switches":
      return { ...timed(world, news.at, now), switches: news.switches };
    case "gone":
      return { ...world, gone: { ...world.gone, [news.journal]: true } };
  }
}

function connected(world: World, state: Connection, why: string, now: number): World {
  const lostAt = state === "live" ? null : (world.lostAt ?? now);
  return { ...world, connection: state, lostAt, why };
}

function timed(world: World, at: number, now: number): World {
  const offset = at - now / 1000;
  const kept = world.told > 0 && Math.abs(offset - world.offset) < OFFSET_SLACK_S;
  return { ...world, told: at, offset: kept ? world.offset : offset };
}

function patched(world: World, news: News & { kind: "patch" }): World["sheets"] {
  const sheet = world.sheets[news.journal];
  if (!sheet) throw new Misfit(news.journal);
  if (news.head < sheet.head) return world.sheets; // told before, with a whole view
  return { ...world.sheets, [news.journal]: applyPatch(sheet, news.patch) };
}

export const speaks = (step: string, attempt: number): string => `${step}#${attempt}`;

function said(world: World, news: News & { kind: "delta" }): World["texts"] {
  const known = world.texts[news.journal] ?? {};
  const place = speaks(news.step, news.attempt);
  const before = known[place] ?? "";
  const kept = upTo(before, news.offset);
  if (kept === null) return world.texts; // a gap: the whole comes with the journal
  const { [place]: _, ...others } = known;
  const few = Object.fromEntries(Object.entries(others).slice(1 - TEXTS_MAX));
  return { ...world.texts, [news.journal]: { ...few, [place]: (kept + news.text).slice(0, TEXT_MAX) } };
}

/**
 * What a step is saying. A read is on record with its result only: until then the sheet knows it by the name in the
 * plan, and what it says comes under that name and a number.
 */
export function sayingOf(texts: Readonly<Record<string, string>> | undefined, step: { id: string; name: string }): string {
  const places = Object.keys(texts ?? {});
  const own = places.findLast((place) => place.startsWith(`${step.id}#`));
  const named = own ?? places.findLast((place) => place.replace(/:[^:]*#[^#]*$/, "") === step.name);
  return texts?.[named ?? ""] ?? "";
}

/** The first characters of a text, as the server counts them: an emoji is one there and two here. */
function upTo(text: string, count: number): string | null {
  if (!/[\ud800-\udfff]/.test(text)) return count > text.length ? null : text.slice(0, count);
  const points = Array.from(text);
  return count > points.length ? null : points.slice(0, count).join("");
}

/** Rows by journal; one that is older than what is known says nothing. */
export function newer(known: World["rows"], rows: readonly Row[]): World["rows"] {
  const next = { ...known };
  for (const row of rows) {
    const had = next[row.journal];
    if (!had || row.head >= had.head) next[row.journal] = row;
  }
  return next;
}

export function only<T>(known: Readonly<Record<string, T>>, names: readonly string[]): Record<string, T> {
  return Object.fromEntries(Object.entries(known).filter(([name]) => names.includes(name)));
}
