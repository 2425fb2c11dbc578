/** Sound at the browser's rate and at the line's: played and counted, heard and framed. Pure.
 *
 * A browser chooses the rate of its microphone, and some (Firefox) refuse to join two rates; so ours is made here.
 */
import { FRAME, RATE } from "./talk";

const CROSSINGS = 12; // of the filter on each side: enough that nothing whistles
const PHASES = 128; // places between two samples that are told apart
const KEEP = 0.94; // of the band: the filter needs room to fall

/** What lies between samples of one rate, without what another could not render. */
export class Between {
  readonly reach: number;
  private readonly taps: Float32Array;

  constructor(
    private readonly from: number,
    private readonly to: number,
  ) {
    const cutoff = from === to ? 1 : Math.min(1, to / from) * KEEP;
    this.reach = Math.ceil(CROSSINGS / cutoff);
    const width = 2 * this.reach;
    this.taps = new Float32Array((PHASES + 1) * width);
    for (let phase = 0; phase <= PHASES; phase++)
      for (let tap = 0; tap < width; tap++) {
        const away = phase / PHASES - (tap - this.reach + 1);
        const window = Math.max(0, Math.cos((Math.PI * away) / (2 * this.reach))) ** 2;
        this.taps[phase * width + tap] = cutoff * sinc(cutoff * away) * window;
      }
  }

  /** The sound at a place, counted in samples of the first rate. */
  at(place: number, sample: (number: number) => number): number {
    const whole = Math.floor(place);
    if (this.from === this.to) return sample(whole);
    const width = 2 * this.reach;
    const first = Math.round((place - whole) * PHASES) * width;
    let sum = 0;
    for (let tap = 0; tap < width; tap++) sum += this.taps[first + tap]! * sample(whole + tap - this.reach + 1);
    return sum;
  }
}

const sinc = (x: number): number => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));

/** A stretch of sound of which the beginning is forgotten. Samples keep their number; outside there is silence. */
class Tape {
  private sound = new Float32Array(0);
  private begins = 0;

  get end(): number {
    return this.begins + this.sound.length;
  }

  add(more: Float32Array): void {
    const whole = new Float32Array(this.sound.length + more.length);
    whole.set(this.sound);
    whole.set(more, this.sound.length);
    this.sound = whole;
  }

  forget(before: number): void {
    const count = Math.min(Math.max(0, before - this.begins), this.sound.length);
    this.sound = this.sound.slice(count);
    this.begins += count;
  }

  restart(at: number): void {
    this.sound = new Float32Array(0);
    this.begins = at;
  }

  sample = (number: number): number => this.sound[number - this.begins] ?? 0;
}

/** A loudspeaker: counts samples of the line that were really played: what is rendered is heard a little later. */
export class Player {
  held = false;
  delay = 0; // samples of the browser's between the two
  private place = 0;
  private rendered = 0; // samples of the browser's, silence too
  private readonly trail = [{ at: 0, place: 0 }]; // how far it was when; the first is what is heard now
  private readonly tape = new Tape();
  private readonly between: Between;

  constructor(private readonly rate: number) {
    this.between = new Between(RATE, rate);
  }

  get played(): number {
    return Math.floor(this.trail[0]!.place);
  }

  add(pcm: Int16Array): void {
    this.tape.add(Float32Array.from(pcm, (sample) => sample / 32_768));
  }

  /** What is rendered is on its way, and nobody can call it back: it counts. */
  cut(): number {
    this.place = Math.floor(this.place);
    this.tape.restart(this.place);
    return this.place;
  }

  fill(out: Float32Array): void {
    const end = this.tape.end;
    for (let at = 0; at < out.length && !this.held && this.place < end; at++) {
      out[at] = this.between.at(this.place, this.tape.sample); // what is not written is silence
      this.place = Math.min(end, this.place + RATE / this.rate);
    }
    this.tape.forget(Math.floor(this.place) - this.between.reach);
    this.rendered += out.length;
    this.trail.push({ at: this.rendered, place: this.place });
    while (this.trail[1] && this.trail[1].at <= this.rendered - this.delay) this.trail.shift();
  }
}

/** A microphone: gives frames of the line as they fill. */
export class Listener {
  private place = 0;
  private readonly tape = new Tape();
  private readonly between: Between;
  private frame = new Int16Array(FRAME);
  private filled = 0;
  private loudness = 0;

  constructor(
    private readonly rate: number,
    private readonly heard: (frame: Int16Array, level: number) => void,
  ) {
    this.between = new Between(rate, RATE);
  }

  hear(sound: Float32Array): void {
    this.tape.add(sound);
    for (; this.place + this.between.reach < this.tape.end; this.place += this.rate / RATE) this.take(this.between.at(this.place, this.tape.sample));
    this.tape.forget(Math.floor(this.place) - this.between.reach);
  }

  private take(sample: number): void {
    const within = Math.max(-1, Math.min(1, sample));
    this.loudness += within * within;
    this.frame[this.filled++] = Math.round(within * 32_767);
    if (this.filled < FRAME) return;
    this.heard(this.frame, Math.sqrt(this.loudness / FRAME));
    this.frame = new Int16Array(FRAME);
    this.filled = this.loudness = 0;
  }
}
