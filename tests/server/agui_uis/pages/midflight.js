// What both pages need of a Midflight server.
import { HttpAgent } from "@ag-ui/client";

const given = new URLSearchParams(location.hash.slice(1));
const server = given.get("server");
const name = "clerk"; // of the agent
const url = `${server}/v1/agents/${name}/agui`;
const headers = { authorization: `Bearer ${given.get("token")}` };

export const thread = given.get("thread");
const stop = given.get("stop"); // "pause" or "cancel"; else the interface's Stop only hangs up

class MidflightAgent extends HttpAgent {
  abortRun() {
    super.abortRun();
    if (stop && this.state.run) fetch(`${server}/v1/runs/${this.state.run}/${stop}`, { method: "POST", headers });
  }

  // CopilotKit calls this when it opens a thread. A POST without messages begins nothing: the
  // server tells what the thread holds and goes on with the run in front, if there is one.
  connect(input) {
    return this.run({ ...input, messages: [] });
  }
}

export const agent = new MidflightAgent({ url, headers, threadId: thread });

// Call `changed` when somebody else does something in the thread: speaks, answers, lifts a pause.
// A second stream listens for that, because a stream that never ends would look like a run that
// never ends. Returns how to stop it.
export function watch(changed) {
  const ears = new HttpAgent({ url, headers, threadId: thread });
  let left = false;
  const listen = async () => {
    while (!left) {
      let heard = 0;
      const onRunStartedEvent = () => {
        if (heard++ === 0 || agent.isRunning) return;
        agent.pendingInterrupts = []; // or it would not look; the server tells of them again
        changed();
      };
      try {
        ears.messages = [];
        ears.pendingInterrupts = [];
        await ears.runAgent({ forwardedProps: { midflight: { follow: true } } }, { onRunStartedEvent });
      } catch {
        // the server is away: try again
      }
      if (!left) await new Promise((soon) => setTimeout(soon, 1000));
    }
  };
  listen();
  return () => {
    left = true;
    ears.abortRun();
  };
}
