/** What a press does. Each is on record before it is answered; what is refused is told in the server's words. */
import { drop, keep, sorted, type Press } from "./model/presses";
import { draftOf, forgetDraft, keepDraft, read, write, type Draft } from "./model/drafts";
import { pathOf } from "./model/route";
import { ENDED, type Ack, type RunSheet } from "./model/types";
import { api, newKey, Refused, Unreachable } from "./net/api";
import { connection, go, runSheet, set, state } from "./store";

const KEPT = "midflight-presses";
const NOTICE_MS = 8_000;
export const PROBE_MS = 1_000;
const AGAIN_MS = [300, 1000, 2000];

/** Press a verb of a run. Gives what the server said, or null when it was refused or waits for the line. */
export async function press(
  run: RunSheet, verb: string, body: Record<string, unknown>, label: string, draft?: Draft, layer?: Press["layer"],
): Promise<Ack | null> {
  const typed = { ...(draft ? { draft } : {}), ...(layer ? { layer } : {}) };
  const one: Press = { run: run.run, verb, body, key: newKey(), at: Date.now(), label, ...typed };
  if (connection(state()) === "lost") remember(keep(state().presses, one)); // shown at once; it may still get through
  return send(one);
}

function remember(presses: readonly Press[]): void {
  set({ presses });
  write(KEPT, presses.length ? JSON.stringify(presses) : "");
}

const underWay = new Map<string, AbortController>();
const takenBack = new Set<string>(); // while under way: what fails then does not wait for the line

async function send(one: Press): Promise<Ack | null> {
  if (underWay.has(one.key)) return null;
  const call = new AbortController();
  underWay.set(one.key, call);
  const mark = `${one.run}:${one.verb}`;
  set({ busy: { ...state().busy, [mark]: true }, notice: "" });
  try {
    const accepted = await api.verb(one.run, one.verb, one.body, one.key, call.signal);
    remember(drop(state().presses, one.key));
    if (one.draft) forgetDraft(one.draft);
    return accepted;
  } catch (error) {
    if (takenBack.has(one.key)) return null;
    if (error instanceof Unreachable) {
      remember(keep(state().presses, error.late ? { ...one, unsure: true } : one));
      void probe();
      return null;
    }
    remember(drop(state().presses, one.key));
    say(refusal(error, one.run));
    openAgain(one);
    return null;
  } finally {
    underWay.delete(one.key);
    takenBack.delete(one.key);
    const { [mark]: _, ...busy } = state().busy;
    set({ busy });
  }
}

/** What was typed and is refused stays where it was typed, to be put right or sent again. */
function openAgain({ run, layer }: Press): void {
  const sheet = runSheet(state());
  if (layer && state().layer === "none" && sheet?.run === run && !ENDED.has(sheet.phase)) set({ layer });
}

let probing = false;

/** Asks every second whether the server answers, from when it did not until it does; then presses go out. */
export async function probe(): Promise<void> {
  if (probing) return;
  probing = true;
  for (;;) {
    try {
      await api.me();
      break;
    } catch (error) {
      if (!(error instanceof Unreachable)) break;
      set({ cut: true });
    }
    await new Promise((done) => setTimeout(done, PROBE_MS));
  }
  probing = false;
  set({ cut: false });
  resend();
}

/** The line is back: fresh presses and a pause go now, the others ask for one confirming press. */
export function resend(now = Date.now()): void {
  const { presses, asks } = state();
  if (presses.length === 0) return;
  const { send: ready, ask } = sorted(presses, now);
  const alive = ask.filter((one) => !ENDED.has((state().world.sheets[one.run] as RunSheet | undefined)?.phase ?? ""));
  set({ asks: [...asks, ...alive] });
  remember(presses.filter((one) => !ask.includes(one)));
  for (const one of ready) void send(one);
}

export function confirmAsk(one: Press): void {
  set({ asks: state().asks.filter((each) => each !== one) });
  void send({ ...one, at: Date.now() }); // under its key: it may have been done, and only its answer was lost
}

export function dropAsk(one: Press): void {
  set({ asks: state().asks.filter((each) => each !== one) });
}

export function takeBackPress(key: string): void {
  const unsure = state().presses.some((each) => each.key === key && each.unsure);
  remember(drop(state().presses, key));
  const call = underWay.get(key);
  if (call) {
    takenBack.add(key);
    call.abort();
  }
  if (call || unsure) say("Taken back; it may already have been sent.");
}

/** What waited when the page was loaded anew. */
export function rememberedPresses(): void {
  try {
    set({ presses: JSON.parse(read(KEPT) ?? "[]") as Press[] });
  } catch {
    write(KEPT, "");
  }
}

export function refusal(error: unknown, run = ""): string {
  if (error instanceof Unreachable) return `Cannot reach the agent server at ${error.message}. Nothing is known to have changed.`;
  if (!(error instanceof Refused)) throw error;
  const phase = (error.problem.state as { phase?: string } | undefined)?.phase ?? "";
  if (error.status === 409 && run && ENDED.has(phase)) return "It had already finished.";
  if (error.status === 409 && error.problem.error === "outdated") return "It has changed since you looked. Look again, then press.";
  return error.problem.message;
}

let fading: ReturnType<typeof setTimeout> | undefined;

export function say(notice: string): void {
  clearTimeout(fading);
  set({ notice });
  fading = setTimeout(() => set({ notice: "" }), NOTICE_MS);
}

/** Something that is no verb of the shown run: repeated while nobody answers, told when refused. */
export async function attempt<T>(call: (key: string) => Promise<T>, told: (words: string) => void = say, key = newKey()): Promise<T | null> {
  for (const pause of [...AGAIN_MS, null]) {
    try {
      return await call(key);
    } catch (error) {
      if (!(error instanceof Unreachable) || pause === null) {
        told(refusal(error));
        return null;
      }
      await new Promise((done) => setTimeout(done, pause));
    }
  }
  return null;
}

interface Sent { what: string; key: string }

const keyAt = (place: string): string => `key:${place}`;
const sending = new Set<string>();

/**
 * Something that must not be done twice. Until it is answered it keeps its key beside the draft that it is made of: pressed
 * again, also after a reload, it is the same one. What has come through is over, and the same once more is another one.
 */
export async function once<T>(place: string, what: unknown, call: (key: string) => Promise<T>, told: (words: string) => void = say): Promise<T | null> {
  const words = JSON.stringify(what);
  const kept = draftOf<Sent>(keyAt(place));
  const key = kept?.what === words ? kept.key : newKey();
  if (sending.has(key)) return null;
  sending.add(key);
  const sent = { place: keyAt(place), text: JSON.stringify({ what: words, key } satisfies Sent) };
  keepDraft(sent.place, sent.text);
  try {
    const done = await attempt(call, told, key);
    if (done) forgetDraft(sent);
    return done;
  } finally {
    sending.delete(key);
  }
}

/** The draft is thrown away: what is written next is something else, even if it is the same words. */
export const forgetKey = (place: string): void => keepDraft(keyAt(place), "");

export async function fork(run: RunSheet, at: number, brief = "", draft?: Draft): Promise<void> {
  const made = await once(`fork:${run.run}:${at}`, brief, (key) => api.verb(run.run, "fork", { at, brief }, key));
  if (!made) return;
  if (draft) forgetDraft(draft);
  go(pathOf(made.run));
}

export async function bringBack(thread: string, todo: number): Promise<void> {
  await attempt((key) => api.talk(thread, "do_now", { todo }, key));
}

export const expecting = (run: RunSheet): { expect: number } => ({ expect: run.position });

export const shownRun = (): RunSheet | undefined => runSheet(state());
