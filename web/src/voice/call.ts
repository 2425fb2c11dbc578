/** One call: the microphone and the loudspeaker of this page, and a line to the server. */
import { base } from "../net/api";
import { frame, RATE, type FromServer, type FromWorklet, type Mode, type ToWorklet } from "./talk";
import worklet from "./worklet.ts?worker&url";

export type Listener = { said: (message: FromServer) => void; level: (level: number) => void; over: (why: string) => void };

export class Call {
  private talking = false;

  private constructor(
    private readonly socket: WebSocket,
    private readonly context: AudioContext,
    private readonly node: AudioWorkletNode,
    private readonly microphone: MediaStream,
    private mode: Mode,
    private readonly listener: Listener,
  ) {
    socket.onmessage = (event: MessageEvent<string | ArrayBuffer>) => this.take(event.data);
    socket.onclose = () => this.hangUp("The line has ended.");
    node.port.onmessage = (event: MessageEvent<FromWorklet>) => this.hear(event.data);
  }

  /** Ask for the microphone, open the line, and begin. Raises an error with words for people. */
  static async begin(thread: string, mode: Mode, listener: Listener): Promise<Call> {
    const socket = await connected(thread); // first: what is said before it is open would be lost
    const microphone = await opened().catch((error: unknown) => {
      socket.close();
      throw error;
    });
    const context = new AudioContext({ sampleRate: RATE, latencyHint: "interactive" });
    try {
      await context.audioWorklet.addModule(worklet);
      const node = new AudioWorkletNode(context, "line", { numberOfInputs: 1, numberOfOutputs: 1, outputChannelCount: [1], channelCount: 1 });
      context.createMediaStreamSource(microphone).connect(node).connect(context.destination);
      socket.send(JSON.stringify({ t: "hello", rate: context.sampleRate, mode }));
      return new Call(socket, context, node, microphone, mode, listener);
    } catch (error) {
      microphone.getTracks().forEach((track) => track.stop());
      void context.close();
      socket.close();
      throw error;
    }
  }

  choose(mode: Mode): void {
    if (this.talking) this.press(false);
    this.mode = mode;
  }

  press(down: boolean): void {
    if (this.mode !== "push" || down === this.talking) return;
    this.talking = down;
    this.send(JSON.stringify({ t: "talk", on: down }));
  }

  hangUp(why = ""): void {
    if (this.context.state === "closed") return;
    this.microphone.getTracks().forEach((track) => track.stop());
    void this.context.close();
    this.socket.close();
    this.listener.over(why);
  }

  private take(data: string | ArrayBuffer): void {
    if (data instanceof ArrayBuffer) return this.order(data);
    const said = JSON.parse(data) as FromServer;
    if (said.t === "hold" || said.t === "go on" || said.t === "cut") this.order(said.t);
    else this.listener.said(said);
  }

  private order(order: ToWorklet): void {
    this.node.port.postMessage(order, order instanceof ArrayBuffer ? [order] : []);
  }

  private hear(told: FromWorklet): void {
    if ("silenced" in told) return this.send(JSON.stringify({ t: "silenced", played: told.silenced }));
    const open = this.mode === "hands-free" || this.talking;
    this.send(frame(told.played, open ? told.heard : null));
    this.listener.level(open ? told.level : 0);
  }

  private send(what: string | ArrayBuffer): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(what);
  }
}

async function opened(): Promise<MediaStream> {
  try {
    return await navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: true, noiseSuppression: true, channelCount: 1 } });
  } catch (error) {
    const refused = error instanceof DOMException && error.name === "NotAllowedError";
    throw new Error(refused ? "The microphone was not allowed. Allow it for this page and try again." : "There is no microphone that this page can use.");
  }
}

/** A line on which somebody listens: the server says so when its engines are ready. */
function connected(thread: string): Promise<WebSocket> {
  const url = new URL(`v1/threads/${encodeURIComponent(thread)}/voice`, base());
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(url);
  socket.binaryType = "arraybuffer";
  let why = "The line could not be opened. Nothing was changed; try again.";
  return new Promise((resolve, reject) => {
    socket.onmessage = (event: MessageEvent<string>) => {
      const said = JSON.parse(event.data) as FromServer;
      if (said.t === "floor") resolve(socket);
      else if (said.t === "trouble") why = said.text;
    };
    socket.onclose = () => reject(new Error(why));
  });
}
