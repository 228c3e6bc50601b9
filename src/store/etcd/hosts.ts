/** What each boot host says of itself in the store. */
import { z } from 'zod';

/** A host that has not written for so long is silent. */
export const SILENT_MS = 30_000;

export const said = z.object({
  v: z.literal(1),
  host: z.string(),
  /** Differs for each start of a server. */
  session: z.string(),
  role: z.enum(['acting', 'standby']),
  version: z.string(),
  /** Since when it has this role, ms since 1970. */
  since: z.number(),
  /** Its clock when it wrote, ms since 1970. */
  at: z.number(),
  addresses: z.array(z.string()),
  /** Up to which revision it has read the store. */
  revision: z.number(),
});
export type Said = z.output<typeof said>;

/** A host as the acting one knows it. */
export interface HostSeen extends Omit<Said, 'v' | 'at'> {
  /** Milliseconds since it was heard. */
  readonly agoMs: number;
  /** How far its clock is ahead of this host's, ms; undefined until it is heard. */
  readonly skewMs: number | undefined;
}
