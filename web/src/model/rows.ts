/** The runs that a tab knows of. All that live are kept; of those that have ended the newest, for there is no end of runs. */
import { ENDED, type Row } from "./types";

export const ROWS_MAX = 500;
const SLACK = 50; // or every row that comes would be one to tidy up behind

type Rows = Readonly<Record<string, Row>>;

export interface Kept { rows: Rows; next: string | null } // before which run the server has more than before

/**
 * What is left when there are too many; null while there are not. Let go of is the end of the list, so that it has no hole
 * and the server can be asked for more from there on. Runs that another one began are listed with that one, not here.
 */
export function tidied(rows: Rows, most: number, found: readonly string[]): Kept | null {
  const ended = Object.values(rows).filter((row) => ENDED.has(row.phase));
  if (ended.length <= most + SLACK) return null;
  const own = ended.filter((row) => !row.parent).sort(byAge);
  const newest = own.slice(0, most);
  const kept = new Set([...newest.map((row) => row.journal), ...found]);
  const left = Object.entries(rows).filter(([journal, row]) => kept.has(journal) || !ENDED.has(row.phase));
  return { rows: Object.fromEntries(left), next: own.length > most ? newest.at(-1)!.journal : null };
}

/** As the server counts them: an id tells when it was made. */
const byAge = (a: Row, b: Row): number => (a.journal < b.journal ? 1 : -1);
