/** A sentence of ours that names something of others: how their words are read turns none of ours. */
export function Sentence({ text, theirs }: { text: string; theirs: string }) {
  const at = theirs ? text.indexOf(theirs) : -1;
  if (at < 0) return text;
  return (
    <>
      {text.slice(0, at)}
      <bdi>{theirs}</bdi>
      {text.slice(at + theirs.length)}
    </>
  );
}
