/**
 * The second half of a session. Browsers send the cookie to every port of this host, so the cookie alone lets nobody
 * in. This half is in the storage of the page, which belongs to this port, and goes along with every request.
 */
import { read, write } from "../model/drafts";

const place = (): string => `midflight-page:${new URL(".", document.baseURI).pathname}`;

export const pageSecret = (): string => read(place(), "localStorage") ?? "";
export const keepPageSecret = (secret: string): void => write(place(), secret, "localStorage");

export const withSecret = (secret: string): Record<string, string> => (secret ? { "x-midflight-page": secret } : {});

/** A page cannot give a WebSocket a header, but it can offer protocols. The server takes the first. */
export const protocolsWith = (secret: string): string[] => ["midflight", ...(secret ? [`midflight.page.${secret}`] : [])];
