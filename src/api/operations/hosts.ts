/** The boot hosts that share a store. */
import { z } from 'zod';
import { MusterError } from '../../base/errors.ts';
import { beforeChange } from '../../base/rehearsal.ts';
import { INVITED_FOR } from '../../pxe/siblings/invitations.ts';
import { type HostSeen, TROUBLES } from '../../store/etcd/hosts.ts';
import { HOST_NAME } from '../../store/etcd/place.ts';
import { listOf, type Parsed, part, time } from '../contract/contract.ts';
import { filesOf, type Hosts, hostState, ready } from '../hosts.ts';
import { partOf } from '../listing.ts';
import { operation } from '../operation.ts';
import { timestamp } from '../times.ts';

interface Deps {
  readonly hosts: Hosts;
}

const hostItem = z
  .strictObject({
    name: z.string(),
    state: z.enum(['acting', 'standby', 'silent']).meta({
      description: '`silent`: it stood by, and has said nothing for half a minute.',
    }),
    version: z.string(),
    since: time.meta({ description: 'Since when it acts or stands by, by its own clock.' }),
    heard: time.meta({ description: 'When it was last heard, by the clock of the acting host.' }),
    addresses: z.array(z.string()),
    behind: z.int().meta({ description: 'Revisions of the store that it had not read when it was heard.' }),
    skewMs: z
      .int()
      .optional()
      .meta({ description: 'By how many ms its clock is ahead; absent until it is heard.' }),
    files: z
      .strictObject({
        lacking: z.int().meta({ description: 'Files that it has not yet.' }),
        octets: z.int().meta({ description: 'Octets of these, as far as known.' }),
        trouble: z.enum(TROUBLES).optional().meta({ description: 'Why it cannot fetch one of them.' }),
      })
      .optional()
      .meta({ description: 'Files of images and artifacts; absent until it has compared them.' }),
  })
  .meta({ id: 'Host' });
export type HostItem = Parsed<z.output<typeof hostItem>>;

export const HOSTS = [
  operation(
    'GET /v1/hosts',
    {
      access: 'view',
      costly: true,
      summary: 'Lists the boot hosts that share the store, the acting one first.',
      query: z.strictObject(part),
      answer: listOf('HostList', hostItem),
    },
    ({ query }, { hosts }: Deps) => {
      const wanted = hosts.wantedFiles();
      const filesShown = (one: HostSeen) => {
        const { lacking, octets, trouble } = filesOf(one, wanted) ?? {};
        if (lacking === undefined || octets === undefined) return {};
        return { files: { lacking, octets, ...(trouble && { trouble: trouble.code }) } };
      };
      const items = hosts.list().map((one) => ({
        name: one.host,
        state: hostState(one),
        version: one.version,
        since: timestamp(one.since),
        heard: timestamp(hosts.now() - one.agoMs),
        addresses: one.addresses,
        behind: Math.max(0, hosts.revision() - one.revision),
        ...(one.skewMs !== undefined && { skewMs: Math.round(one.skewMs) }),
        ...filesShown(one),
      }));
      return { kind: 'HostList' as const, ...partOf(query, items, ({ name }) => name) };
    },
  ),
  operation(
    'POST /v1/hosts/hand-over',
    {
      access: 'administer',
      takes: 'role',
      summary: 'Lets another host act: this one finishes what it answers, and stands by.',
      answer: z.strictObject({
        standbys: z.array(z.string()).meta({ description: 'The hosts of which one acts next.' }),
      }),
    },
    (_asked, { hosts }: Deps) => {
      const standbys = hosts.list().filter(ready);
      if (standbys.length === 0)
        throw new MusterError(
          'E_NO_STANDBY',
          hosts.shared
            ? 'no other host has been heard that stands by'
            : 'the store of this host is its own (docs/several-hosts.md)',
        );
      beforeChange('hand over to another host');
      hosts.handOver();
      return { standbys: standbys.map(({ host }) => host) };
    },
  ),
  operation(
    'POST /v1/hosts/invitations',
    {
      access: 'administer',
      takes: 'socket',
      summary: 'Invites a new boot host: the code gives it all that this host has; secret.',
      body: z.strictObject({
        host: z.string().regex(HOST_NAME, 'is no name of a host'),
        shareCertificate: z.boolean().optional().meta({
          description: 'The new host also gets the certificate that this one shows etcd, with its key.',
        }),
      }),
      answer: z.strictObject({ code: z.string(), seconds: z.int() }),
    },
    ({ body: { host, shareCertificate } }, { hosts }: Deps) => {
      if (!hosts.shared)
        throw new MusterError(
          'E_CONFLICT',
          'the store of this host is its own; move it to etcd first (docs/several-hosts.md)',
        );
      if (hosts.list().some((one) => one.host === host && hostState(one) !== 'silent'))
        throw new MusterError('E_CONFLICT', `there is a boot host "${host}"; give the new one another name`);
      beforeChange(`invite the boot host ${host}`);
      const code = hosts.invite(host, shareCertificate === true);
      return { code, seconds: INVITED_FOR / 1000 };
    },
  ),
  operation(
    'DELETE /v1/hosts/invitations/:name',
    {
      access: 'administer',
      takes: 'role',
      summary: 'Calls an invitation off.',
      answer: z.strictObject({ calledOff: z.string() }),
    },
    ({ params: { name } }, { hosts }: Deps) => {
      if (!hosts.invited(name))
        throw new MusterError('E_NOT_FOUND', `${name} is not invited, or its code was used or has ended`);
      beforeChange(`call off the invitation of ${name}`);
      hosts.callOff(name);
      return { calledOff: name };
    },
  ),
  operation(
    'DELETE /v1/hosts/:name',
    {
      access: 'administer',
      takes: 'role',
      summary: 'Forgets a boot host that is gone for good.',
      answer: z.strictObject({ forgotten: z.string() }),
    },
    async ({ params: { name } }, { hosts }: Deps) => {
      const found = hosts.list().find(({ host }) => host === name);
      if (found === undefined) throw new MusterError('E_NOT_FOUND', `there is no boot host "${name}"`);
      if (hostState(found) !== 'silent')
        throw new MusterError('E_CONFLICT', `${name} was heard just now; stop its server first`);
      beforeChange(`forget the boot host ${name}`);
      await hosts.forget(name);
      return { forgotten: name };
    },
  ),
] as const;
