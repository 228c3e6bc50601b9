/** The setting `registries` of a Cluster: mirrors, logins and CAs of single registries. */
import { z } from 'zod';
import { certificates } from './certificate-text.ts';
import { distinct } from './distinct.ts';
import { secretReference } from './secret-spec.ts';

/** Names under which Docker Hub is known, but which no image name has. */
const HUB = ['index.docker.io', 'registry-1.docker.io', 'registry.hub.docker.com', 'hub.docker.com'];

/** Why a text is not the registry of image names; undefined when it is one. */
function registryFault(text: string): string | undefined {
  if (text === '*' || text === '_default')
    return 'this means all registries, whose mirrors belong into `mirrors`; name one registry here';
  if (text.includes('://'))
    return `write the registry as image names have it, without a scheme: "${text.replace(/^.*:\/\//, '').replace(/\/.*$/, '')}"`;
  if (text.includes('/'))
    return `mirrors and logins are for a whole registry; write it without a path: "${text.replace(/\/.*$/, '')}"`;
  if (HUB.includes(text.toLowerCase())) return 'image names call Docker Hub "docker.io"; write that';
  if (text.includes('['))
    return 'Muster cannot write the brackets of an IPv6 address into a path; give the registry a DNS name';
  if (!/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$/.test(text))
    return 'not the registry of an image name; write it like "registry.example:5000", in lower case';
  const port = /:([0-9]+)$/.exec(text)?.[1] ?? '1';
  if (Number(port) < 1 || Number(port) > 65_535) return `the port ${port} is not between 1 and 65535`;
  if (!/[.:]/.test(text) && text !== 'localhost')
    return `an image name that begins with "${text}/" is one of docker.io; a registry has a dot or a port`;
  return undefined;
}

const registryName = z.string().superRefine((text, context) => {
  const message = registryFault(text);
  if (message !== undefined) context.addIssue({ code: 'custom', message });
});

/**
 * Why a URL has characters that the API of no registry has in a path; undefined when it has none.
 * A parser of URLs would drop, encode or resolve them, each one in its own way.
 */
export function charactersFault(text: string): string | undefined {
  if (!/^https?:\/\/(\[[0-9A-Fa-f:.]+\])?[A-Za-z0-9:/._~-]*$/.test(text))
    return 'a URL of a registry has only letters, digits and the signs "-", ".", "_", "~", ":" and "/"';
  if (/[^:]\/\//.test(text)) return 'the path has an empty part; write it without "//"';
  if (/:0+(\/|$)/.test(text)) return 'the port is 1 to 65535';
  return /\/\.{1,2}(\/|$)/.test(text) ? 'the path has a part "." or ".."; write it without' : undefined;
}

/** Why a text is not the URL of a mirror of one registry; undefined when it is one. */
function mirrorFault(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) return 'not an http:// or https:// URL';
  if (url.username + url.password !== '')
    return 'container runtimes drop a login in a URL; write it as `login`, with the password in a Secret';
  if (/[?#]/.test(text)) return 'the URL of a mirror has no "?" and no "#"';
  const characters = charactersFault(text);
  if (characters !== undefined) return characters;
  if (url.host.includes('['))
    return 'Muster cannot write the brackets of an IPv6 address into a path; give the mirror a DNS name';
  return pathFault(url);
}

/** Why the path of a mirror is open to two readings; undefined when it is not. */
export function pathFault({ origin, pathname }: URL): string | undefined {
  if (pathname === '/' || /\/v2(\/|$)/.test(pathname)) return undefined;
  const path = pathname.replace(/\/$/, '');
  return `this path does not say where the images are in the registry's API; write "${origin}/v2${path}" for images below a project, as Harbor has them, or "${origin}${path}/v2" for an API below a path`;
}

/** The URL as both runtimes write hosts: no default port, no slash at the end. */
export const plainUrl = (text: string): string => {
  const { origin, pathname } = new URL(text);
  return `${origin}${pathname.replace(/\/+$/, '')}`;
};

const url = z
  .string()
  .superRefine((text, context) => {
    const message = mirrorFault(text);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  })
  .meta({
    description:
      "http:// or https:// URL of the mirror. A path names the place of the registry's API: https://harbor.example/v2/dockerhub for a proxy cache of Harbor.",
  });

const login = z
  .strictObject({
    username: z
      .string()
      .regex(/^[\x20-9;-~]{1,255}$/, 'not a user name: printable characters without ":"')
      .meta({ description: 'The user, for example a robot account.' }),
    password: secretReference.meta({
      description:
        'The Secret that holds the password or token; only the agents of the machines get its value.',
    }),
  })
  .meta({ description: 'The login, which machines keep in a file that only root can read.' });

const ca = certificates.meta({
  description:
    "CA certificates (PEM) that are trusted for this host besides those of the system. Absent: Muster's CA.",
});

const mirror = z
  .strictObject({ url, ca: ca.optional(), login: login.optional() })
  .superRefine((one, context) => {
    if (!one.url.startsWith('http:')) return;
    if (one.ca !== undefined)
      context.addIssue({
        code: 'custom',
        path: ['ca'],
        message: 'a mirror at an http:// URL shows no certificate; leave `ca` out, or write https://',
      });
    if (one.login !== undefined)
      context.addIssue({
        code: 'custom',
        path: ['login'],
        message: 'over http:// everybody on the network could read the password; write https://',
      });
  });

const registry = z
  .strictObject({
    registry: registryName.meta({
      description: 'The registry, as image names have it: docker.io, registry.example:5000.',
    }),
    mirrors: z
      .array(mirror)
      .check(
        distinct('the mirror', ({ url: text }) => (mirrorFault(text) === undefined ? plainUrl(text) : text)),
      )
      .optional()
      .meta({
        description:
          "Registries that are asked for images of this one, in this order: after Muster's own, before those in `mirrors` of the Cluster and before the registry itself.",
      }),
    upstream: z.boolean().optional().meta({
      description: 'false: the registry itself is never asked, only mirrors are. Default true.',
    }),
    ca: ca.optional().meta({
      description: 'CA certificates (PEM) that are trusted for the registry itself.',
    }),
    login: login.optional().meta({
      description: 'The login of the registry itself, for pods without imagePullSecrets.',
    }),
  })
  .superRefine(({ mirrors = [], upstream, ca: own, login: given }, context) => {
    const refuse = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message });
    if (mirrors.length === 0 && upstream === undefined && own === undefined && given === undefined)
      refuse([], 'this says nothing about the registry; give it mirrors, a login or a ca');
    if (upstream !== false) return;
    for (const [name, value] of Object.entries({ ca: own, login: given }))
      if (value !== undefined)
        refuse(
          [name],
          `with \`upstream: false\` the registry itself is never asked, so its ${name} has no effect; write it at a mirror`,
        );
  });

export const registries = z
  .array(registry)
  .check(distinct('the registry', ({ registry: name }) => name))
  .meta({
    description:
      'Mirrors, logins and CAs of single registries. A registry that is not listed has the mirrors in `mirrors`.',
  });

export type RegistrySpec = z.output<typeof registry>;
export type RegistryLogin = z.output<typeof login>;
