/** A tab's line to the hub: through a SharedWorker, or to one of its own. */
import type { News } from "../model/world";
import { Hub, opened, type Ask, type Port, type Posted } from "./hub";
import { base, newKey } from "./api";

export interface Link { ask(ask: Ask): void }

export function link(tell: (news: News) => void): Link {
  const tab = `midflight-tab-${newKey()}`;
  const port = shared() ?? own();
  port.onmessage = (message: MessageEvent<Posted>) => tell(opened(message.data));
  const ask = (wanted: Ask) => port.postMessage(wanted);
  // Held as long as this tab lives, and the hub waits for it: it is told only once it would have to wait.
  void navigator.locks?.request(tab, () => {
    ask({ ask: "held", lock: tab });
    return new Promise(() => {});
  });
  addEventListener("online", () => ask({ ask: "retry", evenIfLive: true }));
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) ask({ ask: "retry", evenIfLive: false });
  });
  return { ask };
}

function shared(): MessagePort | null {
  if (typeof SharedWorker === "undefined") return null;
  try {
    const worker = new SharedWorker(new URL("./worker.ts", import.meta.url), { type: "module", name: base() });
    worker.port.start();
    return worker.port;
  } catch {
    return null;
  }
}

function own(): MessagePort {
  const { port1, port2 } = new MessageChannel();
  new Hub(base(), () => Date.now()).join(port2 as unknown as Port);
  port1.start();
  return port1;
}
