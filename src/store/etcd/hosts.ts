/** What each boot host says of itself in the store. */
import { z } from 'zod';

/** A host that has not written for so long is silent. */
export const SILENT_MS = 30_000;

const hash = z.string().regex(/^[0-9a-f]{64}$/);

/** Why a host cannot fetch a file; what is worse comes first. */
export const TROUBLES = ['full', 'disk', 'damaged', 'unreachable', 'nowhere'] as const;

/** What a host says of the files of images and artifacts that it should have. */
const filesSaid = z.object({
  /** Identifies the list of files that this is about. */
  of: z.string().max(64),
  /** The first files that it lacks; all when there are as many as `lacking`. */
  lacks: z.array(hash).max(1000),
  lacking: z.int().min(0),
  /** Octets of the files that it lacks, as far as known. */
  octets: z.number().min(0),
  /** Why it cannot fetch one of them. */
  trouble: z
    .object({
      code: z.enum(TROUBLES),
      text: z.string().max(400),
    })
    .optional(),
});
export type FilesSaid = Readonly<z.output<typeof filesSaid>>;

/** Where the other hosts ask it, and the SHA-256 of the certificate that it shows there. */
const siblingSaid = z.object({ port: z.int().min(1).max(65_535), fingerprint: hash });
export type SiblingSaid = Readonly<z.output<typeof siblingSaid>>;

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
  /** Absent from a host of an older version, like `files`. */
  sibling: siblingSaid.optional(),
  /** Absent until it knows which files it should have. */
  files: filesSaid.optional(),
});
export type Said = z.output<typeof said>;

/** A host as the acting one knows it. */
export interface HostSeen extends Omit<Said, 'v' | 'at'> {
  /** Milliseconds since it was heard. */
  readonly agoMs: number;
  /** How far its clock is ahead of this host's, ms; undefined until it is heard. */
  readonly skewMs: number | undefined;
}
