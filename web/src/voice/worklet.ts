/** Runs beside the page, in the thread that makes sound: plays, counts what was really played, and listens. */
import { Listener, Player } from "./sound";
import type { FromWorklet, ToWorklet } from "./talk";

declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, made: new () => AudioWorkletProcessor): void;
declare const sampleRate: number;

class LineProcessor extends AudioWorkletProcessor {
  private readonly player = new Player(sampleRate);
  private readonly listener = new Listener(sampleRate, (heard, level) => this.tell({ played: this.player.played, heard, level }));

  constructor() {
    super();
    this.port.onmessage = (event: MessageEvent<ToWorklet>) => this.take(event.data);
  }

  private take(order: ToWorklet): void {
    if (order instanceof ArrayBuffer) this.player.add(new Int16Array(order));
    else if (typeof order === "string") this.player.held = order === "hold";
    else if (order.t === "latency") this.player.delay = order.seconds * sampleRate;
    else this.tell({ silenced: this.player.cut(), number: order.number });
  }

  process(inputs: Float32Array[][], outputs: Float32Array[][]): boolean {
    const out = outputs[0]?.[0];
    if (out) this.player.fill(out);
    this.listener.hear(inputs[0]?.[0] ?? new Float32Array(out?.length ?? 128));
    return true;
  }

  private tell(told: FromWorklet): void {
    this.port.postMessage(told);
  }
}

registerProcessor("line", LineProcessor);
