/** A question of the run, in the step that it blocks: what it is about, and one button for each answer. */
import { useEffect, useRef, useState } from "react";
import { expecting, press } from "../actions";
import { useNow } from "../clock";
import { draft, draftOf, keepDraft } from "../model/drafts";
import { misfit, waysOf, type Fact, type Form } from "../model/schema";
import type { Asked, RunSheet } from "../model/types";
import { clock, straight } from "../model/words";
import { useApp } from "../store";
import { leavesOnEscape } from "./keys";
import { SchemaField } from "./SchemaField";

/** Whether it is answered on a card: a cap and a hand-over are answered in the bar. */
export const isAsked = (question: Asked): boolean => question.kind !== "cap" && question.kind !== "human";

/** Questions that belong to no step. */
export function LooseQuestions({ run }: { run: RunSheet }) {
  const bound = new Set(run.steps.map((step) => step.question));
  const loose = run.questions.filter((each) => !bound.has(each.question) && isAsked(each));
  return loose.map((each) => <QuestionCard key={each.question} run={run} question={each} />);
}

interface Typed { form: string; value: unknown }

export function QuestionCard({ run, question }: { run: RunSheet; question: Asked }) {
  const ways = waysOf(question.schema, question.facts);
  const only = ways.buttons.length === 0 && ways.forms.length === 1 ? ways.forms[0]! : null;
  const place = `answer:${run.run}:${question.question}`;
  const [form, setForm] = useState<Form | null>(() => only ?? ways.forms.find((each) => each.key === draftOf<Typed>(place)?.form) ?? null);
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
      {ways.text && <p className="about">{straight(ways.text)}</p>}
      {ways.facts.length > 0 && !form && <Facts facts={ways.facts} />}
      {form ? (
        <AnswerForm form={form} place={place} closes={!only} leave={back} send={answer} wrong={wrong} setWrong={setWrong} />
      ) : (
        <div className="buttons">
          {ways.buttons.slice(0, 1).map((each) => (
            <Choice key={String(each.value)} {...each} filled={each.value === "approve"} off={late || mayNot !== ""} press={() => void answer(each.value)} />
          ))}
          {ways.forms.filter((each) => each.key === "edit").map((each) => (
            <Choice key={each.key} label={each.label} consequence={each.consequence} off={late || mayNot !== ""} press={() => setForm(each)} />
          ))}
          {ways.buttons.slice(1).map((each) => (
            <Choice key={String(each.value)} {...each} off={late || mayNot !== ""} press={() => void answer(each.value)} />
          ))}
          {ways.forms.filter((each) => each.key !== "edit").map((each) => (
            <Choice key={each.key} label={each.label} consequence={each.consequence} off={late || mayNot !== ""} press={() => setForm(each)} />
          ))}
        </div>
      )}
      {mayNot && <p className="quiet">{mayNot}</p>}
      {question.kind === "ask" && !mayNot && !late && (
        <p className="leave">
          <button type="button" className="link" onClick={() => void press(run, "decline", { question: question.question, ...expecting(run) }, "Skip it")}>
            Skip it
          </button>{" "}
          <span className="quiet">It goes on without an answer</span>
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

interface ChoiceProps { label: string; consequence: string; filled?: boolean; off: boolean; press: () => void }

function Choice({ label, consequence, filled, off, press: act }: ChoiceProps) {
  return (
    <button type="button" className={`button${filled ? " filled" : ""}`} aria-disabled={off} onClick={() => off || act()}>
      {straight(label)}
      {consequence && <small><span className="hidden-words">, </span>{straight(consequence)}</small>}
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
  const kept = typed?.form === form.key ? typed : null;
  const [value, setValue] = useState<unknown>(kept ? kept.value : form.start);
  const box = useRef<HTMLFormElement>(null);
  useEffect(() => {
    if (!closes || kept) return; // asked for by a press: it takes the focus and is shown whole
    box.current?.querySelector<HTMLElement>("textarea, input, select")?.focus();
    box.current?.scrollIntoView({ block: "nearest" });
  }, []);
  const write = (next: unknown) => {
    setValue(next);
    keepDraft(place, JSON.stringify({ form: form.key, value: next } satisfies Typed));
  };
  const giveUp = () => {
    keepDraft(place, "");
    leave();
  };
  const submit = () => {
    const problem = misfit(value, form.schema, form.wrap === "respond" ? "A response" : "The answer");
    setWrong(problem ?? "");
    if (!problem) void send(form.wrap ? { [form.wrap]: value } : value);
  };
  return (
    <form ref={box} noValidate onKeyDown={leavesOnEscape(leave)} onSubmit={(event) => { event.preventDefault(); submit(); }}>
      <SchemaField name={form.wrap === "respond" ? "What to do instead" : "Your answer"} schema={form.schema} value={value} change={write} top />
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
          {form.key === "edit" ? "Approve as edited" : form.key === "respond" ? "Send response" : "Answer"}
        </button>
      </div>
    </form>
  );
}
