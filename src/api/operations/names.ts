/** Names of machines and clusters at name servers. */
import { z } from 'zod';
import { MusterError } from '../../base/errors.ts';
import type { Names } from '../../pxe/names/names.ts';
import { listOf, type Parsed, part, word } from '../contract/contract.ts';
import { partOf } from '../listing.ts';
import { operation } from '../operation.ts';

const nameItem = z
  .strictObject({
    zone: z.string(),
    name: z.string(),
    type: z.enum(['A', 'AAAA', 'PTR']),
    data: z.string().meta({ description: 'An address, or for PTR a name.' }),
    subject: z.string().meta({ description: 'The document for which it exists.' }),
    server: z.string().optional(),
    state: z.enum(['registered', 'waiting', 'leaving', 'printed']).meta({
      description:
        '`registered`: the server took it. `waiting`: it has not yet. `leaving`: it is to be removed there. `printed`: its zone has no server.',
    }),
    reason: z.string().optional().meta({ description: 'Why the server did not take it.' }),
  })
  .meta({ id: 'Name' });
export type NameItem = Parsed<z.output<typeof nameItem>>;

export const NAMES = [
  operation(
    'GET /v1/names',
    {
      access: 'view',
      costly: true,
      summary: 'Lists the names of machines and clusters, and whether their servers have them.',
      query: z.strictObject({ zone: word('Only of this zone.'), ...part }),
      answer: listOf('NameList', nameItem),
    },
    ({ query }, { names }: { readonly names: Pick<Names, 'list'> }) => {
      const items = names.list().filter(({ zone }) => query.zone === undefined || zone === query.zone);
      const key = ({ zone, name, data }: NameItem): string => `${zone}/${name}/${data}`;
      return { kind: 'NameList' as const, ...partOf(query, items, key) };
    },
  ),
  operation(
    'DELETE /v1/names/:zone',
    {
      access: 'administer',
      takes: 'role',
      summary: 'Forgets what is to be removed from a zone whose name server is gone for good.',
      answer: z.strictObject({ forgotten: z.int() }),
    },
    async ({ params: { zone } }, { names }: { readonly names: Pick<Names, 'forget'> }) => {
      const forgotten = await names.forget(zone);
      if (forgotten === 0)
        throw new MusterError('E_NOT_FOUND', `nothing is to be removed from zone "${zone}"`);
      return { forgotten };
    },
  ),
] as const;
