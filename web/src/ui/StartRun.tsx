/** A new run: what the agent should do, in one's own words. */
import { useEffect, useRef, useState } from "react";
import { forgetKey, once } from "../actions";
import { draft, keepDraft } from "../model/drafts";
import { pathOf } from "../model/route";
import { api } from "../net/api";
import { go, useApp } from "../store";
import { Icon } from "./Icon";

const EXAMPLES = [
  "Find a table for eight on Saturday, with a garden if there is one",
  "Summarise the lease and list what to ask the landlord",
  "Tidy the invoice folder, and ask before anything is deleted",
];

export function StartRun({ openRail }: { openRail: () => void }) {
  const empty = useApp((app) => app.older.loaded && Object.keys(app.world.rows).length === 0);
  return (
    <main className="work alone">
      <div className="steps-pane empty" id="steps" tabIndex={-1}>
        <button type="button" className="menu-button" aria-label="Runs" onClick={openRail}>
          <Icon name="menu" size={22} />
        </button>
        <h1>{empty ? "Nothing has run yet." : "New run"}</h1>
        <StartForm />
      </div>
    </main>
  );
}

function StartForm() {
  const agents = useApp((app) => app.me?.agents) ?? [];
  const viewer = useApp((app) => app.me?.role === "viewer");
  const [text, setText] = useState(() => draft("start"));
  const [agent, setAgent] = useState(() => draft("agent"));
  const [cap, setCap] = useState("");
  const [wrong, setWrong] = useState("");
  const [starting, setStarting] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const chosen = agents.find((each) => each.name === agent) ?? agents[0];
  useEffect(() => field.current?.focus(), []);
  const write = (words: string) => {
    setText(words);
    keepDraft("start", words);
    if (!words.trim()) forgetKey("start");
  };
  const start = async () => {
    const usd = cap.trim() ? Number(cap.replace(/^\$/, "")) : null;
    if (!text.trim() || !chosen || starting) return;
    if (usd !== null && !(usd > 0)) return setWrong("The cap must be a number of dollars.");
    setStarting(true);
    const body = { agent: chosen.name, brief: text.trim(), ...(usd === null ? {} : { limits: { usd } }) };
    const made = await once("start", body, (key) => api.start(body, key), setWrong);
    setStarting(false);
    if (!made) return;
    write("");
    go(pathOf(made.run));
  };
  return (
    <form className="start" onSubmit={(event) => { event.preventDefault(); void start(); }}>
      <div className="start-box">
        <label className="hidden-words" htmlFor="start">
          What should the agent do?
        </label>
        <textarea
          id="start"
          ref={field}
          rows={3}
          placeholder="What should the agent do?"
          value={text}
          onChange={(event) => write(event.target.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
            event.preventDefault();
            void start();
          }}
        />
        <div className="start-row">
          {agents.length > 1 && (
            <label>
              Agent
              <select value={chosen?.name} onChange={(event) => { setAgent(event.target.value); keepDraft("agent", event.target.value); }}>
                {agents.map((each) => (
                  <option key={each.name}>{each.name}</option>
                ))}
              </select>
            </label>
          )}
          <label>
            Cap, $
            <input className="cap" inputMode="decimal" value={cap} placeholder={chosen?.limits.usd ? String(chosen.limits.usd) : "none"} onChange={(event) => setCap(event.target.value)} />
          </label>
          <span className="grow" />
          <button type="submit" className="button filled" aria-disabled={!text.trim() || viewer || !chosen}>
            {starting ? "Starting…" : "Start"}
          </button>
        </div>
      </div>
      {wrong && (
        <p className="wrong" role="alert">
          {wrong}
        </p>
      )}
      {agents.length === 0 && <p className="quiet">This server drives no agent that can be started here.</p>}
      <div className="examples" aria-label="Examples" role="group">
        {EXAMPLES.map((example) => (
          <button type="button" key={example} onClick={() => { write(example); field.current?.focus(); }}>
            <Icon name="redirect" size={16} />
            {example}
          </button>
        ))}
      </div>
    </form>
  );
}
