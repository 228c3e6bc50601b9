/** Where machines and API endpoints get names: a zone, and the server that takes updates of it. */
import { z } from 'zod';
import { domainName, ipText } from './fields.ts';
import { secretReference } from './secret-spec.ts';

const REVERSE = /(^|\.)(in-addr|ip6)\.arpa$/;
const zone = domainName.overwrite((text) => text.toLowerCase());

export const namesSpec = z
  .strictObject({
    zone: zone.meta({ description: 'The zone, such as "lab.example".' }),
    reverseZone: zone.optional().meta({
      description:
        'The zone of reverse names, such as "0.77.10.in-addr.arpa". Default: addresses get no reverse names.',
    }),
    server: ipText.optional().meta({
      description:
        'Address of the primary name server of the zones, which takes updates (RFC 2136, by TCP). Default: nothing is sent, and `muster dns zone` prints the names.',
    }),
    port: z.int().min(1).max(65535).optional().meta({ description: 'Its port. Default 53.' }),
    key: secretReference.optional().meta({
      description:
        'The Secret with the TSIG key: the file that `tsig-keygen` writes, or `hmac-sha256:NAME:BASE64`. Default: updates are not signed.',
    }),
  })
  .superRefine(({ zone: forward, reverseZone, server, key, port }, context) => {
    const fault = (path: string, message: string): void =>
      context.addIssue({ code: 'custom', path: [path], message });
    if (server === undefined && (key ?? port) !== undefined)
      fault(key ? 'key' : 'port', 'nothing is sent without `server`');
    if (reverseZone !== undefined && !REVERSE.test(reverseZone))
      fault('reverseZone', 'no zone of reverse names; write it like "0.77.10.in-addr.arpa"');
    if (REVERSE.test(forward)) fault('zone', 'is a zone of reverse names; write it into `reverseZone`');
  });

export type NamesSpec = z.output<typeof namesSpec>;
