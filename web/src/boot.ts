/** Coming in, listening, and keeping what is watched in step with what is shown. */
import { link, type Link } from "./net/link";
import { api, Refused } from "./net/api";
import { LIVING } from "./model/types";
import type { News } from "./model/world";
import { PROBE_MS, probe, rememberedPresses, resend } from "./actions";
import { pathOf } from "./model/route";
import { addRows, arrive, forgetOthers, go, heard, onChange, runSheet, set, state, threadSheet } from "./store";

let line: Link | null = null;
let shown = ""; // the address that was looked up last

export async function boot(): Promise<void> {
  addEventListener("popstate", arrive);
  addEventListener("offline", goneOffline);
  rememberedPresses();
  await comeIn();
}

/** A browser may say so a moment before it cuts what is under way: what answers now may not answer then. */
function goneOffline(): void {
  void probe();
  setTimeout(() => void probe(), 2 * PROBE_MS);
}

export async function comeIn(): Promise<void> {
  const code = new URLSearchParams(location.hash.slice(1)).get("code") ?? location.hash.slice(1);
  if (code) history.replaceState(null, "", location.pathname + location.search);
  try {
    if (code) await api.comeIn(code).catch(onlyIfIn);
    const me = await api.me();
    set({ me, entry: "in" });
  } catch (error) {
    set({ entry: error instanceof Refused && error.status === 401 ? "shut out" : "unreachable" });
    return;
  }
  listen();
  void loadRuns();
}

/** A code works once: who reloads the printed address may have come in with it before. */
function onlyIfIn(error: unknown): void {
  if (!(error instanceof Refused)) throw error;
}

function listen(): void {
  if (line) return;
  line = link(news);
  let watched = "";
  const follow = () => {
    const { route } = state();
    const key = JSON.stringify(route);
    if (key !== shown) {
      shown = key;
      void show();
    }
    goAlong();
    const run = state().run;
    const journals = run ? [run, runSheet(state())?.thread ?? threads.get(run) ?? ""].filter(Boolean) : [];
    const wanted = JSON.stringify(journals);
    if (wanted === watched) return;
    watched = wanted;
    forgetOthers(journals);
    line?.ask({ ask: "watch", journals });
  };
  onChange(follow);
  line.ask({ ask: "watch", journals: [] });
  follow();
}

function goAlong(): void {
  const { follow } = state();
  const front = threadSheet(state())?.front;
  if (follow === null || !front || front === follow) return;
  set({ follow: null });
  if (front !== state().run) go(pathOf(front));
}

const threads = new Map<string, string>();

/** Finds out which run the address means, and whether it is there. */
async function show(): Promise<void> {
  const { route } = state();
  if (route.page === "home" || route.page === "lost") return set({ run: "" });
  const wanted = route.page === "run" ? route.run : route.thread;
  try {
    const run = route.page === "run" ? await runOf(route.run) : await frontOf(route.thread);
    if (state().route === route) set({ run, missing: run ? "" : `Nothing has run in ${wanted} yet.` });
  } catch (error) {
    if (state().route === route) set({ run: "", missing: error instanceof Refused ? error.message : "Cannot reach the agent server." });
  }
}

async function runOf(run: string): Promise<string> {
  const known = state().world.rows[run]?.thread;
  threads.set(run, known ?? (await api.row(run)).thread);
  return run;
}

async function frontOf(thread: string): Promise<string> {
  const found = await api.thread(thread);
  const run = found.front || (found.runs.find((row) => !row.parent)?.journal ?? "");
  threads.set(run, thread);
  return run;
}

function news(told: News): void {
  const before = state().world.connection;
  if (!heard(told) && "journal" in told) line?.ask({ ask: "again", journal: told.journal });
  if (told.kind !== "connection") return;
  if (told.state === "live" && before !== "live") {
    resend();
    void loadRuns();
  }
  if (told.state === "shut") set({ entry: "shut out" });
}

export function retry(): void {
  shown = "";
  set({ missing: "" });
  if (line) line.ask({ ask: "retry", evenIfLive: true });
  else void comeIn();
}

// ── the rail ─────────────────────────────────────────────────────────────────────────────────

const PAGE = "40";
const LIVING_PAGE = "500";

export async function loadRuns(): Promise<void> {
  try {
    const page = await api.runs({ limit: PAGE });
    addRows(page.rows);
    const { older } = state();
    if (!older.loaded) set({ older: { ...older, next: page.next, loaded: true } });
    if (page.next) await loadLiving();
  } catch {
    // the stream tells that the line is lost, and this is asked again when it is back
  }
}

/** However long ago it was begun: what still lives can cost something, and must be found without searching. */
async function loadLiving(): Promise<void> {
  let before = "";
  do {
    const page = await api.runs({ limit: LIVING_PAGE, ...(before ? { before } : {}) }, LIVING);
    addRows(page.rows);
    before = page.next;
  } while (before);
}

export async function loadOlder(): Promise<void> {
  const { older } = state();
  if (!older.next || older.loading) return;
  set({ older: { ...older, loading: true } });
  try {
    const page = await api.runs({ limit: PAGE, before: older.next });
    set({ older: { ...state().older, next: page.next, loading: false, most: older.most + page.rows.length } });
    addRows(page.rows);
  } catch {
    set({ older: { ...state().older, loading: false } });
  }
}

let typing: ReturnType<typeof setTimeout> | undefined;

export function search(words: string): void {
  set({ search: { words, found: words.trim() ? state().search.found : null } });
  clearTimeout(typing);
  if (!words.trim()) return;
  typing = setTimeout(() => void find(words), 150);
}

async function find(words: string): Promise<void> {
  try {
    const page = await api.runs({ search: words.trim(), limit: "50" });
    if (state().search.words === words) set({ search: { words, found: page.rows.map((row) => row.journal) } });
    addRows(page.rows);
  } catch {
    if (state().search.words === words) set({ search: { words, found: [] } });
  }
}
