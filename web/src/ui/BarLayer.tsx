/** What opens inside the bar and grows upward: a redirect, a new cap, a hand-back, a question before a costly press. */
import { useEffect, useRef, useState, type ReactNode } from "react";
import { confirmAsk, dropAsk, expecting, fork, press } from "../actions";
import { capReached, type Slot } from "../model/bar";
import { capsOf, CAPS, raised } from "../model/caps";
import { draft, draftOf, keepDraft } from "../model/drafts";
import type { Press } from "../model/presses";
import type { RunSheet } from "../model/types";
import { clock } from "../model/words";
import { set, type Layer } from "../store";
import { act } from "./ControlBar";

interface Props { layer: Layer | "press"; run: RunSheet; slots: Slot[]; asked?: Press }

const close = () => set({ layer: "none" });

export function BarLayer({ layer, run, slots, asked }: Props) {
  return (
    <div className="layer">
      {layer === "redirect" && <Redirect run={run} />}
      {layer === "fork" && <RedirectByFork run={run} />}
      {layer === "raise" && <RaiseCap run={run} />}
      {layer === "hand back" && <HandBack run={run} />}
      {layer === "confirm" && <Confirm run={run} slots={slots} />}
      {layer === "press" && asked && <AskAgain asked={asked} />}
    </div>
  );
}

interface FormProps { title: string; field: string; was?: ReactNode; hint: string; wrong?: string; keep: string; send: string; submit: () => void; off?: boolean; children: ReactNode }

function LayerForm({ title, field, was, hint, wrong, keep, send, submit, off, children }: FormProps) {
  return (
    <form className="layer-form" aria-label={title} onSubmit={(event) => { event.preventDefault(); if (!off) submit(); }}>
      <div className="layer-about">
        {field ? <label htmlFor={field}>{title}</label> : <p className="title">{title}</p>}
        {was && <p className="was">{was}</p>}
      </div>
      <div className="layer-fields">
        {children}
        <div className="layer-row">
          {wrong ? <span className="hint wrong" role="alert">{wrong}</span> : <span className="hint">{hint}</span>}
          <span className="buttons">
            <button type="button" className="button" onClick={close}>
              {keep}
            </button>
            <button type="submit" className="button filled" aria-disabled={off}>
              {send}
            </button>
          </span>
        </div>
      </div>
    </form>
  );
}

/** A field that has the focus and is selected; what is typed in it is kept when the layer is closed. */
function Rewrite({ id, text, write, submit }: { id: string; text: string; write: (text: string) => void; submit: () => void }) {
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);
  return (
    <textarea
      id={id}
      ref={field}
      className="input"
      rows={2}
      value={text}
      onChange={(event) => write(event.target.value)}
      onKeyDown={(event) => {
        if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
        event.preventDefault();
        submit();
      }}
    />
  );
}

function useKept(place: string, start: string): [string, (text: string) => void] {
  const [text, setText] = useState(() => draft(place) || start);
  return [text, (words) => { setText(words); keepDraft(place, words === start ? "" : words); }];
}

function Redirect({ run }: { run: RunSheet }) {
  const coming = run.changes.findLast((change) => !change.applied)?.now;
  const was = coming ?? run.brief;
  const place = `redirect:${run.run}`;
  const [text, write] = useKept(place, was);
  const held = run.phase === "paused" && run.holds.includes("user");
  const finishing = run.in_flight.find((each) => each.effect === "write" || each.effect === "once");
  const hint = run.phase === "paused" ? (run.preview["redirect"]?.consequence ?? "") : finishing ? `Applies now; ${finishing.noun || finishing.name} finishes first` : "Applies at the next step";
  const same = text.trim() === "" || text.trim() === was.trim();
  const submit = () => {
    if (same) return;
    void press(run, "redirect", { text: text.trim(), resume: held, ...expecting(run) }, "Redirect", { place, text }, "redirect");
    close();
  };
  return (
    <LayerForm title="Rewrite the brief" field="redirect" was={<>Was: <del>{was}</del></>} hint={hint} keep="Keep as is" send={held ? "Redirect and resume" : "Redirect"} submit={submit} off={same}>
      <Rewrite id="redirect" text={text} write={write} submit={submit} />
      <TakeOver run={run} />
    </LayerForm>
  );
}

/** The other way to change course: do it oneself, and hand it back. */
function TakeOver({ run }: { run: RunSheet }) {
  const offer = run.preview["take over"];
  if (!offer?.enabled) return null;
  const take = () => {
    void press(run, "take_over", {}, offer.label);
    close();
  };
  return (
    <p className="quiet take-over">
      Or{" "}
      <button type="button" className="link" onClick={take}>
        {offer.label}
      </button>
      : {offer.consequence}
    </p>
  );
}

const FIRST = 2; // the record behind the one that starts a run

function RedirectByFork({ run }: { run: RunSheet }) {
  const from = run.fork_from;
  const place = `fork:${run.run}`;
  const [text, write] = useKept(place, run.brief);
  const submit = () => {
    void fork(run, from?.position ?? FIRST, text.trim(), { place, text });
    close();
  };
  return (
    <LayerForm title="Rewrite the brief" field="redirect" was={<>Was: <del>{run.brief}</del></>} hint={`A new run ${from ? `from step ${from.number}` : "from the beginning"}; this one stays as it is`} keep="Keep as is" send="Redirect" submit={submit} off={text.trim() === ""}>
      <Rewrite id="redirect" text={text} write={write} submit={submit} />
    </LayerForm>
  );
}

function HandBack({ run }: { run: RunSheet }) {
  const place = `back:${run.run}`;
  const [text, write] = useKept(place, "");
  const submit = () => {
    void press(run, "hand_back", { note: text.trim(), ...expecting(run) }, "Hand back", { place, text }, "hand back");
    close();
  };
  return (
    <LayerForm title="What should it know?" field="redirect" hint="It goes on with what you tell it" keep="Keep it" send="Hand back" submit={submit}>
      <Rewrite id="redirect" text={text} write={write} submit={submit} />
    </LayerForm>
  );
}

function RaiseCap({ run }: { run: RunSheet }) {
  const reached = capReached(run);
  const mine = CAPS.filter(([name]) => run.limits[name] != null);
  const place = `raise:${run.run}`;
  const [caps, setCaps] = useState<Record<string, string>>(() =>
    draftOf<Record<string, string>>(place) ?? Object.fromEntries(mine.map(([name]) => [name, String(name === reached ? raised(name, run.limits[name]!) : run.limits[name])])),
  );
  const [wrong, setWrong] = useState("");
  const write = (name: string, cap: string) => {
    setWrong("");
    setCaps({ ...caps, [name]: cap });
    keepDraft(place, JSON.stringify({ ...caps, [name]: cap }));
  };
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => { first.current?.focus(); first.current?.select(); }, []);
  const submit = () => {
    const read = capsOf(caps);
    if ("wrong" in read) return setWrong(`${read.wrong} Nothing was changed.`);
    void press(run, "raise_limits", { limits: read.limits, ...expecting(run) }, "Raise cap", { place, text: draft(place) }, "raise");
    close();
  };
  return (
    <LayerForm title="Raise the cap" field="" was={run.bar.detail} hint="Then continues" wrong={wrong} keep="Keep as is" send="Raise cap" submit={submit}>
      <div className="caps">
        {mine.map(([name, label]) => (
          <div className="field" key={name}>
            <label htmlFor={`cap-${name}`}>{label}</label>
            <input id={`cap-${name}`} ref={name === reached ? first : null} className="input" inputMode="decimal" value={caps[name]} onChange={(event) => write(name, event.target.value)} />
          </div>
        ))}
      </div>
    </LayerForm>
  );
}

/** In place, over no button: something cannot be stopped any more. The safe answer has the focus. */
function Confirm({ run, slots }: { run: RunSheet; slots: Slot[] }) {
  const slot = slots.find((each) => each.confirm);
  const keep = useRef<HTMLButtonElement>(null);
  useEffect(() => keep.current?.focus(), []);
  useEffect(() => { if (!slot) close(); }, [slot === undefined]);
  if (!slot) return null;
  return (
    <Question words={slot.confirm!} about={slot.consequence}>
      <button type="button" ref={keep} className="button" onClick={close}>
        Keep going
      </button>
      <button type="button" className="button danger" onClick={() => { close(); act(slot.act, slot.label, run); }}>
        {slot.label}
      </button>
    </Question>
  );
}

function AskAgain({ asked }: { asked: Press }) {
  return (
    <Question words={`${asked.label} was pressed ${clock((Date.now() - asked.at) / 1000)} ago, while offline. Still?`} about="The server has not answered it.">
      <button type="button" className="button" onClick={() => dropAsk(asked)}>
        {asked.verb === "resume" ? "Keep as is" : "Keep going"}
      </button>
      <button type="button" className="button filled" onClick={() => confirmAsk(asked)}>
        {asked.label}
      </button>
    </Question>
  );
}

function Question({ words, about, children }: { words: string; about: string; children: ReactNode }) {
  return (
    <div className="layer-form" role="group" aria-label={words}>
      <div className="layer-about">
        <p className="title">{words}</p>
      </div>
      <div className="layer-row">
        <span className="hint">{about}</span>
        <span className="buttons">{children}</span>
      </div>
    </div>
  );
}
