/** The receipt: what was saved, what became of every effect, and the way to undo what can be. */
import { expecting, press } from "../actions";
import { read, write } from "../model/drafts";
import { INHERITED, SAVED } from "../generated/types";
import type { ReceiptLine, RunSheet } from "../model/types";
import { capital, oneLine, straight } from "../model/words";
import { useState } from "react";
import { Steer } from "./Steer";

export function ReceiptCard({ run }: { run: RunSheet }) {
  const { lines, saved, inherited } = run.receipt;
  const result = run.phase === "done" ? run.result : "";
  const error = run.phase === "failed" && !run.failed_step ? oneLine(run.cause) : ""; // a step that has failed says why itself
  if (!result && !error && lines.length + saved.length + inherited.length === 0) return null;
  return (
    <section className="receipt" aria-label="Receipt">
      {result && <p className="result">{result}</p>}
      {error && <p className="bad">{error}</p>}
      {saved.length > 0 && <List title={SAVED} items={saved.map(capital)} />}
      {groupsOf(lines).map(([title, group]) => (
        <div key={title}>
          <h2>{title}</h2>
          <ul>
            {group.map((line) => (
              <Effect key={line.position} run={run} line={line} />
            ))}
          </ul>
        </div>
      ))}
      {inherited.length > 0 && <List title={INHERITED} items={inherited} />}
    </section>
  );
}

/** The lines under their headings, what says no more than its heading first. */
function groupsOf(lines: readonly ReceiptLine[]): [string, ReceiptLine[]][] {
  const groups = new Map<string, ReceiptLine[]>();
  for (const line of [...lines.filter(isToldByHeading), ...lines]) {
    const group = groups.get(line.group) ?? [];
    if (!group.includes(line)) groups.set(line.group, [...group, line]);
  }
  return [...groups];
}

const isToldByHeading = (line: ReceiptLine): boolean => line.word === line.group.toLowerCase();

const earlier = (line: ReceiptLine): string => (line.earlier ? ", for the earlier brief" : "");

function List({ title, items }: { title: string; items: readonly string[] }) {
  return (
    <div>
      <h2>{title}</h2>
      <ul>
        {items.map((item, at) => (
          <li key={at}>{straight(item)}</li>
        ))}
      </ul>
    </div>
  );
}

/** That somebody has seen to it by hand is no fact of the run: it is on no record, and the line says so. */
function Effect({ run, line }: { run: RunSheet; line: ReceiptLine }) {
  const place = `midflight-handled:${run.run}:${line.position}`;
  const [handled, setHandled] = useState(() => read(place, "localStorage") === "yes");
  const failed = line.word === "could not be undone";
  const why = line.why ? ` (${straight(line.why)})` : "";
  return (
    <li>
      <span>
        <bdi className="noun">{line.noun}</bdi>
        {!isToldByHeading(line) && (
          <>
            : <span className={failed && !handled ? "bad" : ""}>{line.word}{why}</span>
          </>
        )}
        {earlier(line)}
        {handled && ", handled (noted in this browser only)"}
      </span>
      <span className="buttons">
        {line.can_undo && (
          <Steer className="link" onClick={() => void press(run, "undo", { effects: [line.position], ...expecting(run) }, "Undo")}>
            {failed ? "Try again" : "Undo"}
            <span className="hidden-words"> {line.noun}</span>
          </Steer>
        )}
        {failed && !handled && (
          <button type="button" className="link" onClick={() => { write(place, "yes", "localStorage"); setHandled(true); }}>
            Mark as handled
          </button>
        )}
      </span>
    </li>
  );
}
