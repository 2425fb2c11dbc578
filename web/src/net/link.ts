/** A tab's line to the hub: through a SharedWorker, or to one of its own. */
import type { News } from "../model/world";
import { Hub, opened, type Ask, type Port, type Posted } from "./hub";
import { base, newKey } from "./api";
import { pageSecret } from "./secret";

export interface Link { ask(ask: Ask): void }

/** A worker speaks as soon as it is asked. One that cannot be loaded says so in some browsers, and in others nothing. */
const SILENCE_MS = 10_000;

export function link(tell: (news: News) => void): Link {
  const tab = `midflight-tab-${newKey()}`;
  let watched: Ask | null = null;
  let heard = false;
  const listen = (to: MessagePort): MessagePort => {
    to.onmessage = (message: MessageEvent<Posted>) => {
      heard = true;
      tell(opened(message.data));
    };
    return to;
  };
  const ask = (wanted: Ask) => {
    if (wanted.ask === "watch") watched = wanted;
    port.postMessage({ ask: "secret", secret: pageSecret() });
    port.postMessage(wanted);
  };
  const withoutWorker = () => {
    if (heard) return; // it lives, and what went wrong in it is no reason for a second stream
    heard = true;
    port.onmessage = null;
    ask({ ask: "bye" }); // should it come late
    port = listen(own());
    if (watched) ask(watched);
  };
  let port = listen(shared(withoutWorker) ?? own());
  setTimeout(withoutWorker, SILENCE_MS);
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

function shared(failed: () => void): MessagePort | null {
  if (typeof SharedWorker === "undefined") return null;
  try {
    const worker = new SharedWorker(new URL("./worker.ts", import.meta.url), { type: "module", name: base() });
    worker.onerror = failed;
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
