/**
 * Hooks of operators before and after kubelet, on a machine that gets kubelet minutes after its
 * first configuration, under a real systemd in its own namespaces. Needs root and
 * scripts/in-namespace.sh.
 */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { layerOf } from '../../src/agent/serve/layer.ts';
import { render } from '../../src/ignition/render.ts';
import { CONTEXT, FLATCAR } from '../unit/ignition/kit.ts';
import { underSystemd } from './under-systemd.ts';

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-hooks-'));
afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

const hook = (order: string, name: string) => ({
  name: `${name}.service`,
  enabled: true,
  contents: `[Unit]
DefaultDependencies=no
${order}=kubelet.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'sleep 0.3; echo ${name} >>/run/order'
[Install]
WantedBy=multi-user.target
`,
});

it('a hook before kubelet ends before kubelet starts, and a hook after kubelet starts when kubelet runs', {
  timeout: 150_000,
}, async () => {
  const agent = layerOf({
    authority: 'CA\n',
    settings: '',
    unit: { name: 'muster-agent.service', contents: '' },
  });
  const units = [hook('After', 'last'), hook('Before', 'first')];
  const result = render({
    layers: [agent, { layer: 'cluster', document: 'Cluster/blue', config: { units } }],
    context: CONTEXT,
    image: { ...FLATCAR, reports: true },
    instanceId: 'cp1',
  });
  if (!result.ok) throw new Error(JSON.stringify(result.faults));
  const ignition = JSON.parse(result.value.files.ignition!) as {
    systemd: {
      units: {
        name: string;
        enabled?: boolean;
        contents?: string;
        dropins?: { name: string; contents: string }[];
      }[];
    };
  };
  const put = (file: string, text: string) => {
    fs.mkdirSync(path.dirname(path.join(dir, file)), { recursive: true });
    fs.writeFileSync(path.join(dir, file), text);
  };
  const own = ignition.systemd.units.filter(({ name }) => name !== 'muster-agent.service');
  for (const { name, contents, dropins = [] } of own) {
    if (contents !== undefined) put(`units/${name}`, contents);
    for (const dropin of dropins) put(`units/${name}.d/${dropin.name}`, dropin.contents);
  }
  put('enabled', own.flatMap(({ name, enabled }) => (enabled ? [`${name}\n`] : [])).join(''));
  const said = await underSystemd('hooks-guest.sh', [dir]);
  expect(/^order: (.*?)\s*$/m.exec(said)?.[1], said).toBe('first kubelet last');
});
