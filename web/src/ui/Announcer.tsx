/** What a screen reader is told without being asked: the run's state, that it waits, and finished messages. */
import { useEffect, useRef, useState } from "react";
import { barOf } from "../model/bar";
import { connection, serverNow, useApp, useRun, useThread } from "../store";

export function Announcer() {
  const run = useRun();
  const thread = useThread();
  const line = useApp(connection);
  const notice = useApp((app) => app.notice);
  const bar = run && barOf(run, { connection: line, now: serverNow(), thread, operator: false });
  const waits = run?.phase === "waiting";
  const state = bar ? sentence(bar.word, waits || run?.phase === "running" ? "" : bar.detail) : "";
  const said = useFinishedMessage(run?.run, thread?.lines.filter((line) => line.said !== ""));
  return (
    <div className="hidden-words">
      <p role="status" aria-live="polite" id="said-politely">
        {[waits ? "" : state, notice].filter(Boolean).join(" ")}
      </p>
      <p aria-live="polite">{said}</p>
      <p role="alert">{waits && bar ? sentence(bar.word, bar.detail) : ""}</p>
    </div>
  );
}

const sentence = (word: string, detail: string): string => [word, detail].filter(Boolean).join(". ").replace(/([^.?!])$/, "$1.");

/** The newest message, once, and only one that came while the page was open. */
function useFinishedMessage(run: string | undefined, lines: { position: number; text: string }[] | undefined): string {
  const known = useRef<{ run: string | undefined; upto: number } | null>(null);
  const [said, setSaid] = useState("");
  const last = lines?.at(-1);
  const listening = lines !== undefined; // a thread in which nobody has spoken yet is known, too
  useEffect(() => {
    if (!lines) return;
    const seen = known.current;
    known.current = { run, upto: last?.position ?? 0 };
    if (seen && seen.run === run && last && last.position > seen.upto) setSaid(last.text);
  }, [run, listening, last?.position]);
  return said;
}
