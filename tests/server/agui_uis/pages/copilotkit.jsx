import {
  CopilotChat,
  CopilotKitProvider,
  useCopilotKit,
  useDefaultRenderTool,
  useInterrupt,
} from "@copilotkit/react-core/v2";
import "@copilotkit/react-core/v2/styles.css";
import { useEffect } from "react";
import { createRoot } from "react-dom/client";

import { Asked } from "./asked.jsx";
import { agent, thread, watch } from "./midflight.js";

const agents = { default: agent };

function Chat() {
  const { copilotkit } = useCopilotKit();
  useEffect(() => watch(() => copilotkit.connectAgent({ agent })), [copilotkit]);
  useDefaultRenderTool(); // shows every tool call, by name
  useInterrupt({
    render: ({ interrupts, resolve, cancel }) =>
      interrupts.map((interrupt) => (
        <Asked
          key={interrupt.id}
          interrupt={interrupt}
          answer={(payload) => resolve(payload, interrupt.id)}
          leave={() => cancel(interrupt.id)}
        />
      )),
  });
  return <CopilotChat threadId={thread} />;
}

createRoot(document.getElementById("root")).render(
  <CopilotKitProvider agents__unsafe_dev_only={agents}>
    <Chat />
  </CopilotKitProvider>,
);
