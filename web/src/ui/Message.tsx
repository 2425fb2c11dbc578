/** A message and what became of it. Until it is read it can be edited or withdrawn. */
import { useState, type RefObject } from "react";
import { attempt } from "../actions";
import { draft, keepDraft } from "../model/drafts";
import type { Outcome } from "../model/talk";
import type { Line } from "../model/types";
import { api } from "../net/api";
import { followFront, runSheet, state, useApp } from "../store";
import { leavesOnEscape } from "./keys";
import { useOpener } from "./opener";
import { Sentence } from "./Sentence";
import { Steer } from "./Steer";

export function Message({ line, outcome }: { line: Line; outcome: Outcome | null }) {
  const mine = useApp((app) => app.me?.by === line.by);
  const [editing, setEditing] = useState(() => outcome?.unread === true && draft(editOf(line)) !== "");
  const opener = useOpener(editing, "thread");
  if (editing) return <EditMessage line={line} close={() => setEditing(false)} />;
  return (
    <li className="from-me">
      {!mine && <span className="who">{line.by}</span>}
      <p className={`mine${mine ? "" : " other"}${line.status === "withdrawn" ? " withdrawn" : ""}`}>{line.text}</p>
      {outcome && <OutcomeLine line={line} outcome={outcome} mine={mine} edit={() => setEditing(true)} editor={opener} />}
    </li>
  );
}

const editOf = (line: Line): string => `edit:${thread()}:${line.position}`;
const thread = (): string => runSheet(state())?.thread ?? "";

interface OutcomeProps { line: Line; outcome: Outcome; mine: boolean; edit: () => void; editor: RefObject<HTMLButtonElement | null> }

function OutcomeLine({ line, outcome, mine, edit, editor }: OutcomeProps) {
  const [wrong, setWrong] = useState("");
  const { back } = outcome;
  const Back = mine && back?.choice === "withdraw" ? "button" : Steer; // their own words viewers may withdraw
  const withdraw = () => void attempt((key) => api.talk(thread(), "withdraw_message", { message: line.position }, key), setWrong);
  const overrule = async () => {
    setWrong("");
    if (back!.choice === "withdraw") return withdraw();
    if (back!.choice !== "undo") followFront();
    await attempt((key) => api.talk(thread(), "overrule", { message: line.position, choice: back!.choice }, key), setWrong);
  };
  return (
    <div className="outcome">
      <span>
        <b>{outcome.word}</b> <Sentence text={outcome.rest} theirs={outcome.theirs ?? ""} />
      </span>
      {back && (
        <Back type="button" className="link" onClick={() => void overrule()}>
          {back.label}
        </Back>
      )}
      {outcome.unread && mine && (
        <>
          <button type="button" className="link" ref={editor} onClick={edit}>
            Edit
          </button>
          <button type="button" className="link" onClick={withdraw}>
            Withdraw
          </button>
        </>
      )}
      {wrong && (
        <span className="wrong" role="alert">
          {wrong}
        </span>
      )}
    </div>
  );
}

function EditMessage({ line, close: shut }: { line: Line; close: () => void }) {
  const [text, setText] = useState(() => draft(editOf(line)) || line.text);
  const [wrong, setWrong] = useState("");
  const write = (words: string) => {
    setText(words);
    keepDraft(editOf(line), words);
  };
  const close = () => {
    keepDraft(editOf(line), "");
    shut();
  };
  const save = async () => {
    if (!text.trim()) return;
    if (await attempt((key) => api.talk(thread(), "edit_message", { message: line.position, text: text.trim() }, key), setWrong)) close();
  };
  return (
    <li className="edit-message">
      <form className="edit-message" onKeyDown={leavesOnEscape(shut)} onSubmit={(event) => { event.preventDefault(); void save(); }}>
        <textarea className="input" aria-label="Edit your message" rows={2} autoFocus value={text} onChange={(event) => write(event.target.value)} />
        {wrong && <p className="wrong" role="alert">{wrong}</p>}
        <div className="buttons">
          <button type="button" className="button" onClick={close}>
            Keep as is
          </button>
          <button type="submit" className="button filled">
            Save
          </button>
        </div>
      </form>
    </li>
  );
}
