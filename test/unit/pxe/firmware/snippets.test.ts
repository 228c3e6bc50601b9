/** Snippets for the DHCP servers of others say what Muster's own answers say. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ARCHITECTURES } from '../../../../src/pxe/firmware/architectures.ts';
import { DHCP_PROGRAMS, dhcpSnippet } from '../../../../src/pxe/firmware/snippets.ts';
import { DOCUMENTS, openWorld, type World } from '../../api/world.ts';
import { run } from '../../cli/run.ts';

const network = (name: string, dhcp: string, pxe = '{}') => `---
apiVersion: muster/v1
kind: Network
metadata: {name: ${name}}
spec: {subnet: 10.77.0.0/24, address: 10.77.0.1, dhcp: ${dhcp}, pxe: ${pxe}}
`;
let world: World;
beforeEach(async () => {
  const rest = DOCUMENTS.slice(DOCUMENTS.indexOf('---'));
  world = await openWorld(network('lan', '{mode: off}', '{loader: snponly.efi}') + rest);
});
afterEach(() => world.close());
const muster = (...args: string[]) => run(args, { socket: world.socket });

describe('muster network snippet', () => {
  it('names for each architecture the loader that Muster itself would give, and a script for iPXE', () => {
    const table = world.boot.bootTable('lan');
    expect(table).toMatchObject({ server: '10.77.0.1', script: 'http://10.77.0.1:8080/boot.ipxe' });
    const codes = ARCHITECTURES.flatMap(({ code, loaders }) => (loaders ? [code] : []));
    expect(table.rows.map(({ code }) => code)).toEqual(codes);
    const files = new Map(table.rows.map(({ code, file }) => [code, file]));
    // The network's own loader counts for UEFI, and a BIOS cannot start it.
    expect(files.get(0)).toBe('undionly.kpxe');
    expect(files.get(7)).toBe('snponly.efi');
    expect(files.get(16)).toBe('http://10.77.0.1:8080/loaders/snponly.efi');
    for (const program of DHCP_PROGRAMS.filter((one) => one !== 'unifi')) {
      const text = dhcpSnippet(program, table);
      for (const { file } of table.rows) expect(text).toContain(file);
      for (const part of [table.script, 'iPXE', 'HTTPClient', table.server]) expect(text).toContain(part);
    }
    expect(dhcpSnippet('unifi', table)).toContain('Network/lan of Muster, write: dhcp: {mode: proxy}');
  });

  it('tells with --check whether a file still fits, and how it differs', async () => {
    const { out } = await muster('network', 'snippet', 'lan', '--for', 'dnsmasq');
    expect(out).toContain('dhcp-boot=tag:muster-7,tag:!muster-ipxe,snponly.efi,,10.77.0.1\n');
    const file = join(world.directory, 'muster.conf');
    writeFileSync(file, out);
    const check = () => muster('network', 'snippet', 'lan', '--for', 'dnsmasq', '--check', file);
    expect(await check()).toEqual({ code: 0, out: '', err: '' });
    writeFileSync(file, out.replaceAll('snponly.efi', 'ipxe.efi'));
    const differs = await check();
    expect(differs.code).toBe(1);
    expect(differs.out).toContain('-dhcp-boot=tag:muster-7,tag:!muster-ipxe,ipxe.efi,,10.77.0.1');
    expect(differs.out).toContain('+dhcp-boot=tag:muster-7,tag:!muster-ipxe,snponly.efi,,10.77.0.1');
  });

  it('refuses a network where Muster gives the addresses, and one that is not served', async () => {
    writeFileSync(join(world.directory, 'config', 'all.yaml'), network('lan', '{mode: server}'));
    await world.client.call('POST', '/v1/reload');
    const served = await muster('network', 'snippet', 'lan', '--for', 'kea');
    expect(served).toMatchObject({ code: 2, err: expect.stringContaining('has dhcp.mode server') });
    const other = await muster('network', 'snippet', 'wan', '--for', 'kea');
    expect(other).toMatchObject({ code: 1, err: expect.stringContaining('no served network "wan"') });
  });

  it('says which file it cannot read, or which program it does not know', async () => {
    const lost = await muster('network', 'snippet', 'lan', '--for', 'isc', '--check', '/nowhere/dhcpd.conf');
    expect(lost).toMatchObject({ code: 1, err: expect.stringContaining('/nowhere/dhcpd.conf') });
    const unknown = await muster('network', 'snippet', 'lan', '--for', 'bind');
    expect(unknown).toMatchObject({ code: 2, err: expect.stringContaining('dnsmasq') });
  });
});
