/** What was spent, and the cap that is nearest. The server counts what is reserved, too: the cap is as near as that. */
import type { Limits, Meter, RunSheet, Spent } from "./types";
import { clock, money, worked } from "./words";

const NEAR = 0.8; // from here on it has the colour of a warning, and the run itself is warned
const WORTH_SAYING = 0.5; // of five caps that are hardly used, which is fuller changes all the time
const BY_CLOCK_S = 120; // from here on seconds are read as minutes

/** `label` says what `share` is of; `about` is all caps, for who wants to know more than the nearest. */
export interface Gauge { spent: string; cap: string; share: number | null; near: boolean; label: string; about: string }

/** Money if it is priced or capped, else tokens; and the cap that is nearest: of the same while no other is half full. */
export function gauge(run: RunSheet, now: number): Gauge {
  const caps = run.meters.map((each) => (each.name === "seconds" ? { ...each, used: worked(run, now) } : each));
  const own = unit(run.spent, run.limits);
  const nearest = nearestOf(caps, own);
  const share = nearest ? Math.min(1, shareOf(nearest)) : null;
  const apart = nearest !== undefined && nearest.name !== own;
  return {
    spent: apart ? spending(run.spent, {}, own) : spending(run.spent, run.limits, own),
    cap: apart ? figure(nearest.name, nearest.used, nearest.cap) : "",
    share,
    near: share !== null && share >= NEAR,
    label: nearest ? `${apart ? "Nearest cap" : "Spent"}: ${told(nearest, run.spent)}` : "",
    about: caps.map((each) => told(each, run.spent)).join(", "),
  };
}

const shareOf = ({ used, cap }: Meter): number => (cap ? used / cap : 1);

function nearestOf(caps: readonly Meter[], own: Unit): Meter | undefined {
  const mine = caps.find((each) => each.name === own);
  const fullest = caps.reduce((best, each) => (!best || shareOf(each) > shareOf(best) ? each : best), mine);
  return mine && fullest && shareOf(fullest) < WORTH_SAYING ? mine : fullest;
}

type Unit = "usd" | "tokens";

function unit(spent: Spent, limits: Limits): Unit {
  return limits.usd == null && spent.usd === 0 && (limits.tokens != null || spent.tokens > 0) ? "tokens" : "usd";
}

/** `$0.42 of $2.00`: what was spent for certain, without what is reserved. */
export function spending(spent: Spent, limits: Limits, of: Unit = unit(spent, limits)): string {
  return figure(of, spent[of], limits[of]) + (spent.unpriced && of === "usd" ? " + unpriced" : "");
}

/** `2 of 2 steps`, `58 of 60 s`, `time 9:40 of 10:00`. */
export function figure(name: string, used: number, cap?: number | null): string {
  const of = (said: (n: number) => string): string => said(used) + (cap == null ? "" : ` of ${said(cap)}`);
  if (name === "usd") return of(money);
  if (name === "seconds") return (cap ?? used) < BY_CLOCK_S ? `${of(seconds)} s` : `time ${of(clock)}`;
  const plural = name.replaceAll("_", " ");
  return `${of(short)} ${(cap ?? used) === 1 ? plural.replace(/s$/, "") : plural}`;
}

const seconds = (n: number): string => String(n < 1 ? Math.floor(n * 10) / 10 : Math.floor(n));

function short(n: number): string {
  return n < 10_000 ? String(n) : n < 1_000_000 ? `${Math.round(n / 1000)}k` : `${(n / 1_000_000).toFixed(1)}M`;
}

function told({ name, used, cap }: Meter, spent: Spent): string {
  if (name !== "usd" && name !== "tokens") return figure(name, used, cap);
  const held = used - spent[name];
  return figure(name, spent[name], cap) + (held > 0 ? ` and ${figure(name, held)} reserved` : "");
}
