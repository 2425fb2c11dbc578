/** Where one writes to the agent. It never locks, and what is typed stays until the server has it. */
import { useEffect, useRef, useState } from "react";
import { attempt, forgetKey, once } from "../actions";
import { draft, keepDraft } from "../model/drafts";
import { pathOf } from "../model/route";
import { composerHint } from "../model/talk";
import { ENDED, type RunSheet } from "../model/types";
import { capital } from "../model/words";
import { api } from "../net/api";
import { followFront, go, useApp, useThread } from "../store";
import { Icon } from "./Icon";

const HINT_MS = 6_000;
const SENDING = "Sending…";
const NO_HINT = { words: "", wrong: false };
const coarse = (): boolean => matchMedia("(pointer: coarse)").matches;

export function Composer({ run }: { run: RunSheet }) {
  const hosted = useApp((app) => (app.world.sheets[run.thread] as { hosted?: boolean } | undefined)?.hosted ?? false);
  const front = useThread()?.front ?? "";
  const place = `thread:${run.thread}`;
  const [text, setText] = useState(() => draft(place));
  const [hint, setHint] = useState(NO_HINT);
  const typed = useRef(text); // as it is now: an Enter may come before what was sent is drawn as gone
  useEffect(() => {
    if (!hint.words || hint.wrong) return;
    const timer = setTimeout(() => setHint(NO_HINT), HINT_MS);
    return () => clearTimeout(timer);
  }, [hint]);
  useEffect(() => {
    setHint((told) => (told.wrong || told.words === SENDING ? told : NO_HINT)); // it says how the run stood
  }, [run.phase, run.done]);
  const write = (words: string) => {
    typed.current = words;
    setText(words);
    keepDraft(place, words);
    if (words.trim()) return;
    forgetKey(place);
    forgetKey(`aside:${run.thread}`);
  };
  const refused = (why: string) => setHint({ words: why, wrong: true });
  const gone = (words: string) => {
    if ((draft(place) || typed.current).trim() === words) write("");
  };
  const send = async (now: boolean) => {
    const words = typed.current.trim();
    if (!words) return;
    setHint({ words: SENDING, wrong: false });
    const sent = await once(place, words, (key) => api.talk(run.thread, "messages", { text: words }, key), refused);
    if (!sent) return;
    gone(words);
    setHint({ words: sent.status ? capital(sent.status) : "", wrong: false });
    if (now) await switchTo(sent.position);
    else if (sent.did === "started" && sent.target) go(pathOf(sent.target));
  };
  const askAside = async () => {
    const words = typed.current.trim();
    if (!words) return;
    const asked = await once(`aside:${run.thread}`, words, (key) => api.talk(run.thread, "ask_aside", { text: words }, key), refused);
    if (asked) gone(words);
  };
  const switchTo = async (message: number) => {
    followFront(front);
    await attempt((key) => api.talk(run.thread, "overrule", { message, choice: "switch" }, key), refused);
  };
  return (
    <form className="composer" onSubmit={(event) => { event.preventDefault(); void send(false); }}>
      <label className="hidden-words" htmlFor="message">
        Message the agent
      </label>
      <textarea
        id="message"
        rows={1}
        placeholder="Message the agent"
        value={text}
        aria-describedby="message-hint"
        onChange={(event) => { write(event.target.value); if (hint.words) setHint(NO_HINT); }}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
          const now = event.ctrlKey || event.metaKey;
          if (coarse() && !now) return;
          event.preventDefault();
          void send(now);
        }}
      />
      <div className="composer-row">
        <span className={`hint${hint.wrong ? " wrong" : ""}`} id="message-hint" role={hint.wrong ? "alert" : undefined}>
          {hint.words || composerHint(run, hosted)}
        </span>
        {text.trim() && !ENDED.has(run.phase) && (
          <button type="button" className="link aside" title="Answered without touching the run" onClick={() => void askAside()}>
            Ask aside
          </button>
        )}
        <button type="submit" className="send" aria-label="Send" aria-disabled={!text.trim()}>
          <span>
            <Icon name="up" />
          </span>
        </button>
      </div>
    </form>
  );
}
