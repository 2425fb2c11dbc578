/** A question of the run, in the step that it blocks: what it is about, and one button for each answer. */
import { useEffect, useRef, useState } from "react";
import { expecting, press } from "../actions";
import { useNow } from "../clock";
import { draft, draftOf, keepDraft } from "../model/drafts";
import { aboutOf, formOf, misfit, waysOf, type Fact, type Form } from "../model/schema";
import type { Asked, RunSheet, Way } from "../model/types";
import { clock, straight } from "../model/words";
import { useApp } from "../store";
import { leavesOnEscape } from "./keys";
import { SchemaField } from "./SchemaField";

/** Whether it is answered on a card: a cap and a hand-over are answered in the bar. */
export const isAsked = (question: Asked): boolean => question.verb === "answer";

/** Questions that belong to no step. */
export function LooseQuestions({ run }: { run: RunSheet }) {
  const bound = new Set(run.steps.map((step) => step.question));
  const loose = run.questions.filter((each) => !bound.has(each.question) && isAsked(each));
  return loose.map((each) => <QuestionCard key={each.question} run={run} question={each} />);
}

interface Typed { form: string; value: unknown }

export function QuestionCard({ run, question }: { run: RunSheet; question: Asked }) {
  const ways = waysOf(question);
  const { facts, text } = aboutOf(question.facts);
  const only = ways.length === 1 && ways[0]!.form ? formOf(ways[0]!, question.schema) : null;
  const place = `answer:${run.run}:${question.question}`;
  const [form, setForm] = useState<Form | null>(() => {
    const kept = draftOf<Typed>(place)?.form;
    const way = ways.find((each) => each.form !== "" && each.form === kept);
    return only ?? (way ? formOf(way, question.schema) : null);
  });
  const [wrong, setWrong] = useState("");
  const me = useApp((app) => app.me);
  const late = useExpired(question.expires_at);
  const mayNot = me?.role === "viewer" ? "Viewers look and write; a controller answers." : notAsked(question, me?.by ?? "");
  const answer = async (payload: unknown) => {
    if (late || mayNot) return;
    setWrong("");
    await press(run, "answer", { question: question.question, payload, ...expecting(run) }, "Answer", { place, text: draft(place) });
  };
  const title = `question-${question.question}`;
  const back = () => {
    setForm(only);
    document.getElementById(title)?.focus(); // what had the focus is gone
  };
  return (
    <div className={`card${late ? " expired" : ""}`} role="group" aria-labelledby={title}>
      <h2 id={title} tabIndex={-1} className="card-title" data-question={question.question}>
        {straight(question.message)}
      </h2>
      <Expiry question={question} />
      {text && <p className="about">{straight(text)}</p>}
      {facts.length > 0 && !form && <Facts facts={facts} />}
      {form ? (
        <AnswerForm form={form} place={place} closes={!only} leave={back} send={answer} wrong={wrong} setWrong={setWrong} />
      ) : (
        <div className="buttons">
          {ways.map((way, at) => (
            <Choice key={at} way={way} off={late || mayNot !== ""} press={() => (way.form ? setForm(formOf(way, question.schema)) : void answer(way.value))} />
          ))}
        </div>
      )}
      {mayNot && <p className="quiet">{mayNot}</p>}
      {question.skip && !mayNot && !late && (
        <p className="leave">
          <button type="button" className="link" onClick={() => void press(run, "decline", { question: question.question, ...expecting(run) }, "Skip it")}>
            Skip it
          </button>{" "}
          <span className="quiet">{question.skip}</span>
        </p>
      )}
    </div>
  );
}

function notAsked(question: Asked, by: string): string {
  if (question.answerers.length === 0 || question.answerers.includes(by)) return "";
  return `Only ${question.answerers.join(" or ")} may answer this.`;
}

function useExpired(expires: number | null): boolean {
  const now = useNow();
  return expires !== null && now > expires;
}

function Expiry({ question }: { question: Asked }) {
  const now = useNow();
  if (question.expires_at === null) return null;
  const left = question.expires_at - now;
  if (left <= 0) return <p className="about">Expired <span className="mono">{clock(-left)}</span> ago. Nothing was done.</p>;
  return (
    <p className="about" role="timer" aria-live="off">
      Expires in <span className="mono">{clock(left)}</span>
    </p>
  );
}

function Facts({ facts }: { facts: Fact[] }) {
  return (
    <dl className="facts">
      {facts.map(([name, value], at) => (
        <div key={at} className="fact">
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Choice({ way, off, press: act }: { way: Way; off: boolean; press: () => void }) {
  return (
    <button type="button" className={`button${way.tone === "good" ? " filled" : ""}`} aria-disabled={off} onClick={() => off || act()}>
      {straight(way.label)}
      {way.consequence && <small><span className="hidden-words">, </span>{straight(way.consequence)}</small>}
    </button>
  );
}

interface FormProps {
  form: Form;
  place: string;
  closes: boolean; // or it is all there is
  leave: () => void;
  send: (payload: unknown) => Promise<void>;
  wrong: string;
  setWrong: (words: string) => void;
}

function AnswerForm({ form, place, closes, leave, send, wrong, setWrong }: FormProps) {
  const [typed] = useState(() => draftOf<Typed>(place));
  const { way } = form;
  const kept = typed?.form === way.form ? typed : null;
  const [value, setValue] = useState<unknown>(kept ? kept.value : form.start);
  const box = useRef<HTMLFormElement>(null);
  useEffect(() => {
    if (!closes || kept) return; // asked for by a press: it takes the focus and is shown whole
    box.current?.querySelector<HTMLElement>("textarea, input, select")?.focus();
    box.current?.scrollIntoView({ block: "nearest" });
  }, []);
  const write = (next: unknown) => {
    setValue(next);
    keepDraft(place, JSON.stringify({ form: way.form, value: next } satisfies Typed));
  };
  const giveUp = () => {
    keepDraft(place, "");
    leave();
  };
  const submit = () => {
    const problem = misfit(value, form.schema, way.form === "respond" ? "A response" : "The answer");
    setWrong(problem ?? "");
    if (!problem) void send(way.form === "answer" ? value : { [way.form]: value });
  };
  return (
    <form ref={box} noValidate onKeyDown={leavesOnEscape(leave)} onSubmit={(event) => { event.preventDefault(); submit(); }}>
      <SchemaField name={way.asks} schema={form.schema} value={value} change={write} top />
      {wrong && (
        <p className="wrong" role="alert">
          {wrong}
        </p>
      )}
      <div className="buttons">
        {closes && (
          <button type="button" className="button" onClick={giveUp}>
            Keep as is
          </button>
        )}
        <button type="submit" className="button filled">
          {way.send}
        </button>
      </div>
    </form>
  );
}
