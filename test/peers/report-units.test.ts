/**
 * The report units that a configuration brings to an image without them, under a real systemd in
 * its own namespaces: written and enabled as the Ignition document says. Needs root and
 * scripts/in-namespace.sh.
 */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { FLATCAR, rendered } from '../unit/ignition/kit.ts';
import { underSystemd } from './under-systemd.ts';

const LIMIT = { timeout: 150_000 };
const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-reports-'));
afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

interface Ignition {
  readonly storage: { readonly files: { path: string; mode: number; contents: { source: string } }[] };
  readonly systemd: { readonly units: { name: string; enabled?: boolean; contents: string }[] };
}

/**
 * Boots a machine with this configuration and returns its reports in order; `notes` are the
 * failures that it wrote down.
 */
async function reportsOf(name: string, config: object, notes?: string): Promise<string[]> {
  const image = { ...FLATCAR, reports: undefined };
  const { storage, systemd } = JSON.parse(rendered(config, image).files.ignition!) as Ignition;
  const home = path.join(dir, name);
  for (const file of storage.files.filter((one) => one.path.startsWith('/etc/muster/'))) {
    const target = path.join(home, file.path);
    fs.mkdirSync(path.dirname(target), { recursive: true });
    const content = await fetch(file.contents.source);
    fs.writeFileSync(target, await content.text(), { mode: file.mode });
  }
  fs.mkdirSync(path.join(home, 'units'));
  for (const unit of systemd.units) fs.writeFileSync(path.join(home, 'units', unit.name), unit.contents);
  const enabled = systemd.units.filter((unit) => unit.enabled).map((unit) => `${unit.name}\n`);
  fs.writeFileSync(path.join(home, 'enabled'), enabled.join(''));
  if (notes !== undefined) fs.writeFileSync(path.join(home, 'notes'), notes);
  const server = path.join(import.meta.dirname, 'report-server.ts');
  const said = await underSystemd('report-guest.sh', [home, process.execPath, server]);
  const reports = [...said.matchAll(/^report: (.*?)\s*$/gm)].map(([, report]) => report!);
  if (reports.length === 0) throw new Error(`nothing was reported; all that was said:\n${said}`);
  return reports;
}

it('report units that the configuration brings report configured, then ready', LIMIT, async () => {
  expect(await reportsOf('well', {})).toEqual([
    '/boot/SESSION/report configured',
    '/boot/SESSION/report ready',
  ]);
});

const BROKEN = `[Unit]
DefaultDependencies=no
OnFailure=muster-failed.service
After=muster-configured.service
Before=muster-ready.service
[Service]
Type=oneshot
ExecStart=/bin/false
[Install]
RequiredBy=muster-ready.service
`;

it('when a required unit fails, the units report failed with its name instead of ready', LIMIT, async () => {
  const config = { units: [{ name: 'broken.service', enabled: true, contents: BROKEN }] };
  expect(await reportsOf('badly', config, 'the disk is empty\n')).toEqual([
    '/boot/SESSION/report configured',
    '/boot/SESSION/report failed the disk is empty',
  ]);
});
