/** The proxies through which the programs of a cluster reach other networks. */
import { z } from 'zod';
import { parseIp, parseIpNetwork } from '../base/ip.ts';
import { urlOf } from './fields.ts';

const proxyUrl = urlOf(
  /^(https?|socks5h?):$/,
  'not an http://, https:// or socks5:// URL, e.g. "http://proxy.example:3128"',
)
  .refine((text) => {
    if (!URL.canParse(text)) return true;
    const { username, password } = new URL(text);
    return username + password === '';
  }, 'a login in the URL would be readable on every machine; let the proxy recognise machines by their addresses')
  .refine((text) => !/[\s"\\]/.test(text), 'a URL has no blanks, quotes and backslashes');

/** What a list of NO_PROXY takes: a domain, an address, a network or `*`. */
const NAME =
  /^(\*\.|\.)?[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*(:[0-9]{1,5})?$/;
const direct = z
  .string()
  .refine(
    (text) => parseIp(text) !== undefined || parseIpNetwork(text) !== undefined || NAME.test(text),
    'not a name, an address or a network; write it like "registry.example", ".example" or "10.0.0.0/8"',
  )
  .overwrite((text) => text.replace(/^\*\./, '.'));

export const proxySpec = z
  .strictObject({
    http: proxyUrl.optional().meta({ description: 'Proxy for http:// URLs.' }),
    https: proxyUrl.optional().meta({ description: 'Proxy for https:// URLs. Default: that of http.' }),
    noProxy: z.array(direct).optional().meta({
      description:
        'What is reached directly besides what Muster derives: loopback, networks of pods, Services and machines, the endpoint, the DNS domain of the cluster and mirrors. A name stands for its subdomains as well.',
    }),
  })
  .refine(({ http, https }) => http !== undefined || https !== undefined, {
    message: 'name a proxy in http or https',
  });
