// One open question of a run, drawn from its schema: buttons, choices, or a line of text.
import { useState } from "react";

export function Asked({ interrupt, answer, leave }) {
  const [text, setText] = useState("");
  const fields = interrupt.responseSchema?.properties ?? {};
  const details = interrupt.metadata?.details; // all of what is approved
  const choices = interrupt.responseSchema?.enum ?? [];
  return (
    <section aria-label="question" style={{ border: "1px solid", margin: 8, padding: 8 }}>
      <p>{interrupt.message}</p>
      {details && <pre>{JSON.stringify(details, null, 2)}</pre>}
      {interrupt.reason === "midflight:paused" && (
        <button onClick={() => answer({ action: "resume" })}>Resume</button>
      )}
      {fields.approved && (
        <>
          <button onClick={() => answer({ approved: true })}>Approve</button>
          <button onClick={() => answer({ approved: false, reason: text })}>Deny</button>
        </>
      )}
      {choices.map((choice) => (
        <button key={choice} onClick={() => answer(choice)}>
          {choice}
        </button>
      ))}
      <label>
        Words <input value={text} onChange={(event) => setText(event.target.value)} />
      </label>
      <button onClick={() => answer(text)}>Answer</button>
      <button onClick={leave}>Leave it</button>
    </section>
  );
}
