/**
 * What a network's DHCP server has to say to machines that boot, as a table: the same decisions as
 * Muster's own answers, for another DHCP server that gives them.
 */
import { MusterError } from '../../base/errors.ts';
import { formatIpv4 } from '../../base/ipv4.ts';
import { ARCHITECTURES } from '../firmware/architectures.ts';
import type { BootTable } from '../firmware/snippets.ts';
import { machinePath } from '../http/routes.ts';
import type { BootContext } from './boot-context.ts';
import { decide, judge, loaderFile } from './decide.ts';

/**
 * The table of a network that is served. Loaders that are demanded for single machines or vendor
 * classes are not in it.
 *
 * @throws {MusterError} E_NOT_FOUND; E_USAGE where Muster itself gives the addresses
 */
export function bootTable(context: BootContext, name: string): BootTable {
  const network = context.servedNetworks().find((one) => one.name === name);
  if (network === undefined)
    throw new MusterError(
      'E_NOT_FOUND',
      `there is no served network "${name}"; \`muster get networks\` lists all`,
    );
  const { mode, httpPort: port } = network;
  if (mode === 'server')
    throw new MusterError(
      'E_USAGE',
      `Network/${name} has dhcp.mode server: Muster gives the addresses there; write off or proxy where another server does`,
    );
  const server = formatIpv4(network.serverAddress);
  const rows = ARCHITECTURES.flatMap(({ code, name: about, loaders, http }) => {
    const stage = http ? 'http' : 'pxe';
    const decision =
      loaders &&
      decide({
        ...{ stage, archCode: code, mode: 'proxy', verdict: judge({ kind: 'unknown' }), loaderRan: false },
        installed: (loader) => context.assets.loader(loader) !== undefined,
        loaderOverride: network.pxe.loader,
      });
    if (decision?.kind !== 'loader') return [];
    return [{ code, about, http: http ?? false, file: loaderFile({ stage }, decision.loader, server, port) }];
  });
  return {
    ...{ network: name, subnet: `${formatIpv4(network.subnet.base)}/${network.subnet.prefix}`, server, rows },
    script: `http://${server}:${port}${machinePath('entry')}`,
  };
}
