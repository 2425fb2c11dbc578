/** The runs: what is at work now, what was earlier, and a search over both. */
import { lazy, Suspense, useMemo, useState, type MouseEvent } from "react";
import { loadOlder, search } from "../boot";
import { looksOfRow } from "../model/phases";
import { pathOf } from "../model/route";
import { ENDED, type Row } from "../model/types";
import { ago, count, money } from "../model/words";
import { go, useApp } from "../store";
import { useNow } from "../clock";
import { Icon } from "./Icon";
import { leavesOnEscape } from "./keys";
import { useWayBack } from "./opener";

const KillSwitch = lazy(() => import("./KillSwitch"));
const Settings = lazy(() => import("./Settings"));

export function Rail() {
  return (
    <nav className="rail" aria-label="Runs" id="rail" tabIndex={-1}>
      <Brand />
      <a className="new-run" href="" onClick={follow("")}>
        <Icon name="plus" size={18} />
        New run
      </a>
      <Find />
      <Runs />
      <Foot />
    </nav>
  );
}

/** A plain click stays in the page; with a key held the browser opens its tab. */
function follow(to: string) {
  return (event: MouseEvent) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    go(to || ".");
  };
}

function Brand() {
  return (
    <p className="brand">
      <svg width={20} height={20} viewBox="0 0 20 20" aria-hidden="true">
        <rect x={2} y={2} width={16} height={16} rx={5} fill="currentColor" />
        <path d="M8 6.8v6.4M12 6.8v6.4" stroke="var(--bg)" strokeWidth={1.8} strokeLinecap="round" />
      </svg>
      Agent runs
    </p>
  );
}

function Find() {
  const sought = useApp((app) => app.search.words);
  const [words, setWords] = useState(sought); // its own: the store tells once a frame, and a field must not wait for it
  const { cameFrom, goBack } = useWayBack("rail");
  const write = (text: string) => {
    setWords(text);
    search(text);
  };
  return (
    <div className="find" role="search" onKeyDown={leavesOnEscape(goBack)}>
      <Icon name="search" />
      <input type="search" aria-label="Search runs" placeholder="Search" value={words} onFocus={cameFrom} onChange={(event) => write(event.target.value)} />
    </div>
  );
}

function Runs() {
  const rows = useApp((app) => app.world.rows);
  const older = useApp((app) => app.older);
  const { words, found } = useApp((app) => app.search);
  const shown = useMemo(() => listed(rows), [rows]);
  if (words.trim() && found) return <Found words={words} rows={found.flatMap((id) => rows[id] ?? [])} />;
  const now = shown.filter((row) => !ENDED.has(row.phase));
  const earlier = shown.filter((row) => ENDED.has(row.phase));
  return (
    <div className="runs">
      {now.length > 0 && <Group name="Now" rows={now} />}
      {earlier.length > 0 && <Group name="Earlier" rows={earlier} />}
      {older.loaded && shown.length === 0 && <p className="none">Nothing has run yet.</p>}
      {older.next && (
        <button type="button" className="older" onClick={() => void loadOlder()}>
          {older.loading ? "Loading…" : "Show earlier runs"}
        </button>
      )}
    </div>
  );
}

/** Runs that people began; what those began themselves is shown with them. */
function listed(rows: Record<string, Row>): Row[] {
  const own = Object.values(rows).filter((row) => !row.parent && row.kind !== "thread");
  return own.sort((a, b) => b.created_at - a.created_at || (a.journal < b.journal ? 1 : -1));
}

function Found({ words, rows }: { words: string; rows: Row[] }) {
  return (
    <div className="runs">
      <Group name={rows.length ? `Found ${rows.length}` : "Found nothing"} rows={rows} />
      {rows.length === 0 && <p className="none">No run speaks of “<bdi>{words.trim()}</bdi>”.</p>}
    </div>
  );
}

function Group({ name, rows }: { name: string; rows: Row[] }) {
  return (
    <section>
      <h2>{name}</h2>
      <ul>
        {rows.map((row) => (
          <RunRow key={row.journal} row={row} />
        ))}
      </ul>
    </section>
  );
}

function RunRow({ row }: { row: Row }) {
  const current = useApp((app) => app.run === row.journal);
  const { sign, tone, word } = looksOfRow(row);
  return (
    <li>
      <a className="run-row" href={pathOf(row.journal)} aria-current={current ? "page" : undefined} onClick={follow(pathOf(row.journal))}>
        <span className={`tone-${tone}`}>
          <Icon name={sign} size={16} />
        </span>
        <span>
          <span className="name">{row.title || row.agent}</span>
          <small>
            {word}
            <RowDetail row={row} />
          </small>
        </span>
      </a>
    </li>
  );
}

function RowDetail({ row }: { row: Row }) {
  if (row.undriven) return null;
  if (row.phase === "running" && row.steps > 0) return <>, {count(row.steps, "step")} done</>;
  if (row.phase === "paused" && row.open_questions > 0) return <>, needs you</>;
  if (row.phase === "paused") return <PausedFor since={row.updated_at} />;
  if (ENDED.has(row.phase) && row.usd > 0) return <>, {money(row.usd)}</>;
  return null;
}

function PausedFor({ since }: { since: number }) {
  return <> {ago(useNow() - since)}</>;
}

function Foot() {
  const operator = useApp((app) => app.me?.role === "operator");
  const [open, setOpen] = useState<"" | "kill" | "settings">("");
  return (
    <div className="rail-foot">
      <button type="button" onClick={() => setOpen("settings")}>
        <Icon name="settings" />
        Settings
      </button>
      {operator && (
        <button type="button" onClick={() => setOpen("kill")}>
          <span className="tone-bad">
            <Icon name="stop" />
          </span>
          Stop all agents
        </button>
      )}
      <Suspense>
        {open === "kill" && <KillSwitch close={() => setOpen("")} />}
        {open === "settings" && <Settings close={() => setOpen("")} />}
      </Suspense>
    </div>
  );
}
