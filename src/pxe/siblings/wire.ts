/** What siblings ask each other. */
import { z } from 'zod';

/** GET: what the acting host wants all hosts to have. 503 from a host that does not act. */
export const WANTED_PATH = '/wanted';
/** GET, with a Range: a file. 404 from a host that lacks it. */
export const FILE_PATH = '/file/';

const hash = z.string().regex(/^[0-9a-f]{64}$/);

export const wanted = z.object({
  v: z.literal(1),
  files: z
    .array(
      z.object({
        sha256: hash,
        /** Octets; absent where the acting host does not know them. */
        size: z.int().min(0).optional(),
      }),
    )
    .max(100_000),
  /** Files that operators removed lately at the acting host. */
  removed: z.array(hash).max(10_000),
});
export type Wanted = z.output<typeof wanted>;
