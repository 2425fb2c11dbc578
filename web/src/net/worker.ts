/** The SharedWorker: one hub for all tabs of this address. */
import { Hub, type Port } from "./hub";

const scope = self as unknown as { onconnect: (event: MessageEvent) => void; name: string };
const hub = new Hub(scope.name, () => Date.now());
scope.onconnect = (event) => {
  const port = event.ports[0];
  if (port) hub.join(port as unknown as Port);
};
