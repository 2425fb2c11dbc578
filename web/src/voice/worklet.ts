/** Runs beside the page, in the thread that makes sound: plays, counts what was really played, and listens. */
import { FRAME, type FromWorklet, type ToWorklet } from "./talk";

declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, made: new () => AudioWorkletProcessor): void;

class LineProcessor extends AudioWorkletProcessor {
  private waiting: Int16Array[] = [];
  private at = 0; // in the first of them
  private held = false;
  private played = 0;
  private heard = new Int16Array(FRAME);
  private filled = 0;
  private loudness = 0;

  constructor() {
    super();
    this.port.onmessage = (event: MessageEvent<ToWorklet>) => this.take(event.data);
  }

  private take(order: ToWorklet): void {
    if (order instanceof ArrayBuffer) this.waiting.push(new Int16Array(order));
    else if (order === "hold") this.held = true;
    else if (order === "go on") this.held = false;
    else {
      this.waiting = [];
      this.at = 0;
      this.tell({ silenced: this.played });
    }
  }

  process(inputs: Float32Array[][], outputs: Float32Array[][]): boolean {
    const out = outputs[0]?.[0];
    if (out) this.play(out);
    this.listen(inputs[0]?.[0], out?.length ?? 128);
    return true;
  }

  private play(out: Float32Array): void {
    for (let place = 0; place < out.length; place++) {
      const first = this.held ? undefined : this.waiting[0];
      if (!first) return; // what is not written is silence
      out[place] = first[this.at]! / 32768;
      this.played++;
      if (++this.at === first.length) {
        this.waiting.shift();
        this.at = 0;
      }
    }
  }

  private listen(sound: Float32Array | undefined, count: number): void {
    for (let place = 0; place < count; place++) {
      const sample = Math.max(-1, Math.min(1, sound?.[place] ?? 0));
      this.loudness += sample * sample;
      this.heard[this.filled++] = Math.round(sample * 32767);
      if (this.filled < FRAME) continue;
      this.tell({ played: this.played, heard: this.heard, level: Math.sqrt(this.loudness / FRAME) });
      this.heard = new Int16Array(FRAME);
      this.filled = this.loudness = 0;
    }
  }

  private tell(told: FromWorklet): void {
    this.port.postMessage(told);
  }
}

registerProcessor("line", LineProcessor);
