/** The receipt: what was saved, what became of every effect, and the way to undo what can be. */
import { expecting, press } from "../actions";
import { read, write } from "../model/drafts";
import { ENDED, type ReceiptLine, type RunSheet } from "../model/types";
import { capital, oneLine, straight } from "../model/words";
import { useState } from "react";
import { Steer } from "./Steer";

const UNDOABLE: ReadonlySet<string> = new Set(["kept", "could not be undone", "unknown"]);

const ASKED_FOR = "undo asked for"; // after the end, and not done yet

/** What stands over the effects that are not undone: while they are being undone nobody can say that they were not. */
const OTHERS: Partial<Record<RunSheet["phase"], string>> = { done: "Done", cancelling: "To be undone" };

export function ReceiptCard({ run }: { run: RunSheet }) {
  const { lines, saved, inherited } = run.receipt;
  const undone = lines.filter((line) => line.word === "undone");
  const pending = lines.filter((line) => line.word === ASKED_FOR);
  const others = lines.filter((line) => line.word !== "undone" && line.word !== ASKED_FOR);
  const result = run.phase === "done" ? run.result : "";
  const error = run.phase === "failed" && !isToldByStep(run) ? oneLine(run.cause) : "";
  if (!result && !error && lines.length + saved.length + inherited.length === 0) return null;
  return (
    <section className="receipt" aria-label="Receipt">
      {result && <p className="result">{result}</p>}
      {error && <p className="bad">{error}</p>}
      {saved.length > 0 && <List title="Saved to thread" items={saved.map(capital)} />}
      {undone.length > 0 && <List title="Undone" items={undone.map((line) => line.noun + earlier(line))} />}
      {pending.length > 0 && <List title="Undo asked for" items={pending.map((line) => line.noun + earlier(line))} />}
      {others.length > 0 && (
        <div>
          <h2>{OTHERS[run.phase] ?? "Not undone"}</h2>
          <ul>
            {others.map((line) => (
              <Effect key={line.position} run={run} line={line} />
            ))}
          </ul>
        </div>
      )}
      {inherited.length > 0 && <List title="Taken over from the run before" items={inherited} />}
    </section>
  );
}

/** The step that has failed says why, and so does the bar. */
const isToldByStep = (run: RunSheet): boolean => run.steps.some((step) => step.error !== "" && oneLine(run.cause).startsWith(step.error.replace(/…$/, "")));

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
  const offered = ENDED.has(run.phase) && run.preview["undo"]?.enabled && UNDOABLE.has(line.word) && line.why !== "no undo";
  const why = line.why ? ` (${straight(line.why)})` : "";
  return (
    <li>
      <span>
        <bdi className="noun">{line.noun}</bdi>:{" "}
        <span className={failed && !handled ? "bad" : ""}>
          {line.word}
          {why}
        </span>
        {earlier(line)}
        {handled && ", handled (noted in this browser only)"}
      </span>
      <span className="buttons">
        {offered && (
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
