import {
  AssistantRuntimeProvider,
  ComposerPrimitive,
  MessagePrimitive,
  ThreadPrimitive,
  useAuiState,
} from "@assistant-ui/react";
import { useAgUiInterrupts, useAgUiRuntime, useAgUiSubmitInterruptResponses } from "@assistant-ui/react-ag-ui";
import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

import { Asked } from "./asked.jsx";
import { agent, watch } from "./midflight.js";

// A thread that is opened is asked for at once: with `unstable_resume` assistant-ui runs the agent
// with the messages that it has, which are none.
const history = {
  load: async () => ({ headId: null, messages: [], unstable_resume: true }),
  append: async () => {},
};

function Tool({ toolName, argsText, result, status, approval, respondToApproval }) {
  const [reason, setReason] = useState("");
  const open = approval && approval.approved === undefined && !approval.resolution;
  return (
    <section aria-label="tool" data-status={status.type}>
      <b>{toolName}</b> <code>{argsText}</code>
      {result !== undefined && <pre>{typeof result === "string" ? result : JSON.stringify(result)}</pre>}
      {open && (
        <div>
          <p>{approval.prompt}</p>
          <label>
            Reason <input value={reason} onChange={(event) => setReason(event.target.value)} />
          </label>
          <button onClick={() => respondToApproval({ approved: true })}>Approve</button>
          <button onClick={() => respondToApproval({ approved: false, reason })}>Deny</button>
        </div>
      )}
    </section>
  );
}

const parts = { tools: { Fallback: Tool } };

function Message() {
  const role = useAuiState((state) => state.message.role);
  return (
    <MessagePrimitive.Root aria-label={role} role="article">
      <MessagePrimitive.Parts components={parts} />
      <MessagePrimitive.Error>
        <p role="alert">It failed.</p>
      </MessagePrimitive.Error>
    </MessagePrimitive.Root>
  );
}

function Questions() {
  const interrupts = useAgUiInterrupts();
  const submit = useAgUiSubmitInterruptResponses();
  const native = interrupts.length > 0 && interrupts.every((one) => one.reason === "tool_call");
  if (native) return null; // assistant-ui draws the buttons at the tool call itself
  return interrupts.map((interrupt) => {
    const send = (entry) => submit([{ interruptId: interrupt.id, ...entry }]);
    return (
      <Asked
        key={interrupt.id}
        interrupt={interrupt}
        answer={(payload) => send({ status: "resolved", payload })}
        leave={() => send({ status: "cancelled" })}
      />
    );
  });
}

// Show the thread anew. With an open question assistant-ui starts no run, so it forgets all first.
function again(runtime) {
  runtime.thread.reset();
  runtime.thread.startRun({ parentId: null });
}

function Page() {
  const runtime = useAgUiRuntime({ agent, adapters: { history } });
  useEffect(() => watch(() => again(runtime)), [runtime]);
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <ThreadPrimitive.Root>
        <ThreadPrimitive.Viewport>
          <ThreadPrimitive.Messages components={{ Message }} />
        </ThreadPrimitive.Viewport>
        <Questions />
        <ComposerPrimitive.Root>
          <ComposerPrimitive.Input placeholder="Type a message..." />
          <ThreadPrimitive.If running={false}>
            <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
          </ThreadPrimitive.If>
          <ThreadPrimitive.If running>
            <ComposerPrimitive.Cancel>Stop</ComposerPrimitive.Cancel>
          </ThreadPrimitive.If>
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

createRoot(document.getElementById("root")).render(<Page />);
