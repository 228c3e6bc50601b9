import fs from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterEach, expect, test } from 'vitest';
import { publicName } from '../../../src/base/ids.ts';
import { MUSTER_SCOPE } from '../../../src/store/keys.ts';
import { DOCUMENTS, openWorld, type World } from '../api/world.ts';
import { run } from './run.ts';

const PASSWORD_HASH = `$6$rounds=10000$saltsalt$${'onlyTheHashOfAPassword'.padEnd(86, '.')}`;
const GIVEN = 'the value of a Secret';
const SESSION = 'nVdQXnChLKyuQVhTEliElw';
const SECRET_USER = `---
apiVersion: muster/v1
kind: Machine
metadata: {name: node-2, labels: {rack: inTheLabel}, annotations: {note: inTheAnnotation}}
spec:
  macs: ["52:54:00:aa:00:02"]
  profile: worker
  config: {users: [{name: ada, passwordHash: "${PASSWORD_HASH}"}]}
`;

let world: World;
afterEach(() => world.close());

test('a support bundle names machines and events, and holds no secret of the store or the documents', async () => {
  world = await openWorld(DOCUMENTS + SECRET_USER);
  await world.pki.found(MUSTER_SCOPE);
  await world.pki.found('one');
  await world.deps.secrets.given.put('app', 'token', Buffer.from(GIVEN));
  world.deps.events.record({
    kind: 'boot.session',
    subject: 'node-1',
    session: SESSION,
    fields: { url: `http://10.77.0.1:8080/boot/${SESSION}/user-data` },
  });
  const output = path.join(world.directory, 'bundle.tar.gz');
  const made = await run(['support', '-o', output], { socket: world.socket });
  expect(made).toMatchObject({ code: 0, out: expect.stringMatching(/: \d+ files\n$/) });
  expect(fs.statSync(output).mode & 0o777).toBe(0o600);
  const text = gunzipSync(fs.readFileSync(output)).toString('latin1');
  for (const name of ['node-1', 'node-2', 'boot.session', 'machines.json', 'pki.json'])
    expect(text).toContain(name);

  const secrets = [
    'inTheLabel',
    'inTheAnnotation',
    GIVEN,
    Buffer.from(GIVEN).toString('base64'),
    PASSWORD_HASH,
    SESSION,
  ];
  for (const scope of [MUSTER_SCOPE, 'one'])
    for (const keyset of (await world.pki.keysets(scope)).values())
      for (const one of [...keyset.made, ...keyset.trusted])
        secrets.push((await world.pki.exported(scope, keyset.name, one)).reveal().split('\n')[1]!);
  const encryption = await world.pki.encryption('one');
  for (const { key } of encryption?.trusted ?? []) secrets.push(key.reveal());
  expect(secrets.length).toBeGreaterThan(6);
  for (const secret of secrets) expect(text).not.toContain(secret);
  expect(text).not.toContain('PRIVATE KEY');
  expect(text).toContain(`"session": "${publicName(SESSION)}"`);

  const again = await run(['support', '-o', output], { socket: world.socket });
  expect(again.err).toContain('E_USAGE');
});
