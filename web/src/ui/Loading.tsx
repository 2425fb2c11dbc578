/** Something is on its way. What comes within 400 ms is not announced; what takes longer says what it is. */
export function Loading({ what }: { what: string }) {
  return (
    <div className="skeleton" role="status">
      <span className="w1" />
      <span className="w2" />
      <span className="w3" />
      <span className="w2" />
      <p className="quiet">{what} …</p>
    </div>
  );
}
