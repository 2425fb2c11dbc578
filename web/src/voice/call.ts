/** One call: the microphone and the loudspeaker of this page, and a line to the server. */
import { base } from "../net/api";
import { pageSecret, protocolsWith } from "../net/secret";
import { Early, frame, RATE, type FromServer, type FromWorklet, type Mode, type ToWorklet } from "./talk";
import worklet from "./worklet.ts?worker&url";

export type Listener = { said: (message: FromServer) => void; level: (level: number) => void; over: (why: string) => void };
const OPEN_MS = 20_000; // the server loads its engines when somebody first talks
const LATENCY_MAX_S = 0.5; // between rendering and hearing: more is no estimate
const LATENCY_TOLD_S = 0.005; // a change that is worth telling
const NO_SOUND = "This browser could not prepare its sound. Nothing was changed; try again, or write.";
const NOT_SAFE = "Browsers give a microphone only to pages that come over HTTPS or from the same machine. You can still write.";
const REFUSED = "The microphone was not allowed. Allow it for this page and try again.";
const NONE_THERE = "There is no microphone that this page can use. You can still write.";
const SUSPENDED = "This browser has stopped the sound of this page, perhaps for a telephone call. You are not heard; come back to the page, or press anything on it, to go on.";
const IS_BACK = "The sound is back.";
const NOT_OPENED = "The line could not be opened. Nothing was changed; try again.";

const MOMENTS = ["visibilitychange", "pointerdown", "keydown"] as const; // in which a browser may let sound go on

/** It can be hung up at any time, also while it is being opened: nothing is left open then. */
export class Call {
  private talking = false;
  private ended = false;
  private ready = false;
  private suspended = false;
  private latency = 0;
  private early = new Early();
  private microphone?: MediaStream;
  private context?: AudioContext;
  private node?: AudioWorkletNode;
  private socket?: WebSocket;

  constructor(
    private readonly thread: string,
    private mode: Mode,
    private readonly listener: Listener,
  ) {}

  /** First the microphone and the loudspeaker, then the line: so nothing that either side says is lost.
   *  Raises an error with words for people. */
  async open(): Promise<void> {
    try {
      await this.prepare();
      if (!this.ended) await this.connected();
    } catch (error) {
      this.release();
      throw error;
    }
  }

  choose(mode: Mode): void {
    if (this.talking) this.press(false);
    this.mode = mode;
    this.greet();
  }

  press(down: boolean): void {
    if (this.mode !== "push" || down === this.talking) return;
    this.talking = down;
    this.send(JSON.stringify({ t: "talk", on: down }));
  }

  hangUp(why = ""): void {
    if (this.ended) return;
    this.release();
    this.listener.over(why);
  }

  private release(): void {
    this.ended = true;
    for (const moment of MOMENTS) document.removeEventListener(moment, this.wake);
    this.microphone?.getTracks().forEach((track) => track.stop());
    if (this.context && this.context.state !== "closed") void this.context.close();
    this.socket?.close();
  }

  private async prepare(): Promise<void> {
    this.microphone = await opened();
    if (this.ended) return this.release(); // hung up before it was there
    this.context = new AudioContext({ latencyHint: "interactive" });
    await this.context.audioWorklet.addModule(worklet).catch(() => {
      throw new Error(NO_SOUND);
    });
    if (this.ended) return;
    this.node = new AudioWorkletNode(this.context, "line", { numberOfInputs: 1, numberOfOutputs: 1, outputChannelCount: [1], channelCount: 1, channelCountMode: "explicit" });
    this.node.port.onmessage = (event: MessageEvent<FromWorklet>) => this.hear(event.data);
    this.context.createMediaStreamSource(this.microphone).connect(this.node).connect(this.context.destination);
    this.microphone.getTracks().forEach((track) => (track.onended = () => this.hangUp("The microphone is gone. You can still write.")));
    await this.context.resume();
    if (this.ended) return;
    this.context.onstatechange = () => this.follow();
    for (const moment of MOMENTS) document.addEventListener(moment, this.wake);
  }

  /** A browser may stop the sound of a page, for a call or another app: nothing is heard or played then, and nobody would know. */
  private follow(): void {
    if (this.ended || !this.context) return;
    const suspended = this.context.state !== "running";
    if (suspended !== this.suspended) this.listener.said({ t: "trouble", text: suspended ? SUSPENDED : IS_BACK });
    this.suspended = suspended;
    this.wake();
  }

  /** Some browsers let a page go on by itself, others once somebody has touched it. */
  private wake = (): void => {
    if (this.suspended && !this.ended) void this.context?.resume().catch(() => undefined); // not yet
  };

  /** A line on which somebody listens: the server says so when its engines are ready. */
  private connected(): Promise<void> {
    const url = new URL(`v1/threads/${encodeURIComponent(this.thread)}/voice`, base());
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    const socket = (this.socket = new WebSocket(url, protocolsWith(pageSecret())));
    socket.binaryType = "arraybuffer";
    let why = NOT_OPENED;
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => socket.close(), OPEN_MS);
      socket.onmessage = (event: MessageEvent<string | ArrayBuffer>) => {
        const said = this.take(event.data);
        if (said?.t === "trouble" && !this.ready) why = said.text;
        if (said?.t !== "floor" || this.ready) return;
        clearTimeout(late);
        this.begin();
        resolve();
      };
      socket.onclose = () => {
        clearTimeout(late);
        if (this.ready) this.hangUp("The line has ended.");
        else if (this.ended) resolve();
        else reject(new Error(why));
      };
    });
  }

  /** Somebody listens: first what was said while nobody did. */
  private begin(): void {
    this.ready = true;
    this.greet();
    for (const sound of this.early.taken()) this.send(frame(0, sound));
  }

  private greet(): void {
    if (this.ready) this.send(JSON.stringify({ t: "hello", rate: RATE, mode: this.mode }));
  }

  private take(data: string | ArrayBuffer): FromServer | null {
    if (data instanceof ArrayBuffer) {
      this.order(data);
      return null;
    }
    const said = JSON.parse(data) as FromServer;
    if (said.t === "hold" || said.t === "go on") this.order(said.t);
    else if (said.t === "cut") this.order(said);
    else this.listener.said(said);
    return said;
  }

  private order(order: ToWorklet): void {
    this.node?.port.postMessage(order, order instanceof ArrayBuffer ? [order] : []);
  }

  private hear(told: FromWorklet): void {
    if ("silenced" in told) return this.send(JSON.stringify({ t: "silenced", played: told.silenced, number: told.number }));
    this.noteLatency();
    const open = this.mode === "hands-free" || this.talking;
    if (!this.ready && open) this.early.keep(told.heard);
    if (this.ready) this.send(frame(told.played, open ? told.heard : null));
    this.listener.level(open ? told.level : 0);
  }

  /** It changes with the loudspeaker; some browsers do not say. */
  private noteLatency(): void {
    const seconds = Math.min(LATENCY_MAX_S, Math.max(0, this.context?.outputLatency || 0));
    if (Math.abs(seconds - this.latency) < LATENCY_TOLD_S) return;
    this.latency = seconds;
    this.order({ t: "latency", seconds });
  }

  private send(what: string | ArrayBuffer): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(what);
  }
}

async function opened(): Promise<MediaStream> {
  if (!navigator.mediaDevices) throw new Error(NOT_SAFE);
  try {
    return await navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: true, noiseSuppression: true, channelCount: 1 } });
  } catch (error) {
    const refused = error instanceof DOMException && error.name === "NotAllowedError";
    throw new Error(refused ? REFUSED : NONE_THERE);
  }
}
