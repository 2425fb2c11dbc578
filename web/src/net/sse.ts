/** Server-sent events out of pieces of text, as they come. */
export interface Sent { event: string; data: string }

export class SseParser {
  private rest = "";
  private event = "";
  private data: string[] = [];

  push(piece: string): Sent[] {
    const lines = (this.rest + piece).split("\n");
    this.rest = lines.pop() ?? "";
    const sent: Sent[] = [];
    for (const line of lines) {
      const done = this.line(line.endsWith("\r") ? line.slice(0, -1) : line);
      if (done) sent.push(done);
    }
    return sent;
  }

  private line(line: string): Sent | null {
    if (line === "") {
      const done = this.data.length ? { event: this.event || "message", data: this.data.join("\n") } : null;
      this.event = "";
      this.data = [];
      return done;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return null; // a comment: it lives
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.event = value;
    if (field === "data") this.data.push(value);
    return null;
  }
}
