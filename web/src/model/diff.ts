/** What a person changed, by words: the same cut as journal/status.py makes, for one line on the page. */
export interface Piece { kind: "same" | "removed" | "added"; text: string }

const CELLS_MAX = 250_000; // longer texts than any brief; then the whole is shown as replaced

export function wordDiff(was: string, now: string): Piece[] {
  const before = words(was);
  const after = words(now);
  const start = commonStart(before, after);
  const end = commonEnd(before, after, start);
  const pieces: Piece[] = [];
  add(pieces, "same", before.slice(0, start));
  middle(pieces, before.slice(start, before.length - end), after.slice(start, after.length - end));
  add(pieces, "same", before.slice(before.length - end));
  return pieces;
}

function words(text: string): string[] {
  return text.split(/\s+/).filter(Boolean);
}

function commonStart(a: string[], b: string[]): number {
  let n = 0;
  while (n < a.length && n < b.length && a[n] === b[n]) n++;
  return n;
}

function commonEnd(a: string[], b: string[], start: number): number {
  let n = 0;
  while (n < a.length - start && n < b.length - start && a[a.length - 1 - n] === b[b.length - 1 - n]) n++;
  return n;
}

function middle(pieces: Piece[], a: string[], b: string[]): void {
  if (a.length * b.length > CELLS_MAX) {
    add(pieces, "removed", a);
    add(pieces, "added", b);
    return;
  }
  const longest = table(a, b);
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    const removed: string[] = [];
    const added: string[] = [];
    while (i < a.length && j < b.length && a[i] !== b[j]) {
      if (longest[i + 1]![j]! >= longest[i]![j + 1]!) removed.push(a[i++]!);
      else added.push(b[j++]!);
    }
    if (i >= a.length || j >= b.length) {
      removed.push(...a.slice(i));
      added.push(...b.slice(j));
      i = a.length;
      j = b.length;
    }
    add(pieces, "removed", removed);
    add(pieces, "added", added);
    while (i < a.length && j < b.length && a[i] === b[j]) {
      add(pieces, "same", [a[i]!]);
      i++;
      j++;
    }
  }
}

/** longest[i][j]: how many words a[i:] and b[j:] have in common, in order. */
function table(a: string[], b: string[]): number[][] {
  const longest = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      longest[i]![j] = a[i] === b[j] ? longest[i + 1]![j + 1]! + 1 : Math.max(longest[i + 1]![j]!, longest[i]![j + 1]!);
  return longest;
}

function add(pieces: Piece[], kind: Piece["kind"], found: string[]): void {
  if (found.length === 0) return;
  const last = pieces.at(-1);
  if (last?.kind === kind) last.text += ` ${found.join(" ")}`;
  else pieces.push({ kind, text: found.join(" ") });
}

/** The change without what stayed the same at its ends; "…" says that there was more. */
export function shortDiff(was: string, now: string): Piece[] {
  const pieces = wordDiff(was, now);
  if (!pieces.some((piece) => piece.kind !== "same")) return pieces;
  return pieces.filter((piece, at) => piece.kind !== "same" || (at > 0 && at < pieces.length - 1));
}
