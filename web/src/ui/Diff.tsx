/** A change by words: what was removed is struck, what was added is marked, and both are said. */
import { shortDiff, wordDiff } from "../model/diff";

export function Diff({ was, now, whole }: { was: string; now: string; whole: boolean }) {
  const pieces = whole ? wordDiff(was, now) : shortDiff(was, now);
  return (
    <span className="diff">
      {pieces.map((piece, at) => {
        if (piece.kind === "same") return <span key={at}>{piece.text} </span>;
        const Mark = piece.kind === "removed" ? "del" : "ins";
        return (
          <span key={at}>
            <Mark>
              <span className="hidden-words">{piece.kind} </span>
              {piece.text}
            </Mark>{" "}
          </span>
        );
      })}
    </span>
  );
}
