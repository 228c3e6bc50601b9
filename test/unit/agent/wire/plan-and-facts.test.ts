/** Encodes plans as tar archives and decodes facts from forms. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeFacts, FACTS_LIMIT, withoutSecrets } from '../../../../src/agent/wire/decode-facts.ts';
import { encodePlan, UnsayablePlan } from '../../../../src/agent/wire/encode-plan.ts';
import { probeName } from '../../../../src/agent/wire/evidence.ts';
import type { PlanLine } from '../../../../src/agent/wire/plan.ts';
import { tar } from '../../../../src/artifacts/tar.ts';

const of = (...lines: readonly PlanLine[]) => encodePlan({ lines, pollSeconds: 10 });
const put = (at: string, text: string): PlanLine => ({ do: 'put', mode: 0o644, path: at, content: { text } });

describe('tar', () => {
  test.for([['tar'], ['busybox', 'tar']])(
    '%s unpacks what we write, octet for octet',
    ([command, ...args]) => {
      const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'muster-tar-'));
      try {
        fc.assert(
          fc.property(
            fc.uniqueArray(
              fc.record({
                name: fc
                  .stringMatching(/^[a-z0-9]{1,20}(\/[a-zA-Z0-9._-]{1,64})?$/)
                  .filter((name) => !/\/\.+$/.test(name)),
                content: fc.uint8Array({ maxLength: 1600 }),
              }),
              { selector: ({ name }) => name.split('/')[0]!, maxLength: 5 },
            ),
            (entries) => {
              const at = fs.mkdtempSync(path.join(directory, 'x'));
              execFileSync(command!, [...args, '-xf', '-', '-C', at], { input: tar(entries) });
              for (const { name, content } of entries)
                expect(fs.readFileSync(path.join(at, name)).equals(Buffer.from(content))).toBe(true);
            },
          ),
          { numRuns: 25 },
        );
      } finally {
        fs.rmSync(directory, { recursive: true });
      }
    },
  );

  test('names that do not fit the format are refused', () => {
    for (const name of ['', 'x'.repeat(101), 'ü', 'a b', 'a\nb'])
      expect(() => tar([{ name, content: Buffer.alloc(0) }])).toThrow(RangeError);
  });
});

const RESTORE = {
  do: 'restore-etcd',
  cluster: 'c',
  from: 'f',
  to: 'g',
  member: 'm',
  machine: 'n',
  address: '2001:db8::1',
  program: 'etcdutl',
  bump: 1000,
} as const;

const PROBE = probeName('ca', '0123456789abcdef');

describe('a plan', () => {
  test('has the same octets for the same lines, and another digest for another content', () => {
    expect(of(put('/a', 'x')).tar.equals(of(put('/a', 'x')).tar)).toBe(true);
    expect(of(put('/a', 'x')).digest).not.toBe(of(put('/a', 'y')).digest);
  });

  test('carries a content once, however many lines put it', () => {
    const one = of(put('/a', 'same')).tar;
    expect(of(put('/a', 'same'), put('/b', 'same')).tar).toHaveLength(one.length);
  });

  test('writes every line as the README describes it', () => {
    const content = { text: 'x' };
    const sha = '2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881';
    const lines: readonly (readonly [PlanLine, string])[] = [
      [{ do: 'request', leaf: 'etcd-peer', algorithm: 'ECDSA-P256' }, 'request etcd-peer ECDSA-P256'],
      [
        { do: 'request', leaf: 'kubelet', algorithm: 'RSA-2048', replaces: 'ab12' },
        'request kubelet RSA-2048 ab12',
      ],
      [{ do: 'create-data', device: '/dev/vda', filesystem: 'u-1' }, 'create-data /dev/vda u-1'],
      [
        { do: 'create-data', device: '/dev/vda', filesystem: 'u-1', encrypt: 'boot-host' },
        'create-data /dev/vda u-1 boot-host',
      ],
      [{ do: 'mount-data', filesystem: 'u-1' }, 'mount-data u-1'],
      [{ do: 'bind', directory: 'etcd', path: '/var/lib/etcd' }, 'bind etcd /var/lib/etcd'],
      [{ do: 'marker', cluster: 'c', founding: 'f', member: 'm', machine: 'n' }, 'marker c f m n'],
      [
        { do: 'create-etcd', device: '/dev/vdb', filesystem: 'u-2', encrypt: 'tpm' },
        'create-etcd /dev/vdb u-2 tpm',
      ],
      [{ do: 'mount-etcd', filesystem: 'u-2' }, 'mount-etcd u-2'],
      [{ do: 'bind-etcd', directory: 'etcd', path: '/var/lib/etcd' }, 'bind-etcd etcd /var/lib/etcd'],
      [{ do: 'marker-etcd', cluster: 'c', founding: 'f', member: 'm', machine: 'n' }, 'marker-etcd c f m n'],
      [{ do: 'clear-etcd', cluster: 'c', founding: 'f', member: 'm', machine: 'n' }, 'clear-etcd c f m n'],
      [{ do: 'guard-new', filesystem: 'u-1' }, 'guard-new u-1'],
      [{ do: 'set-aside-etcd', member: '8e9e05c52164694d' }, 'set-aside-etcd 8e9e05c52164694d'],
      [{ do: 'end-etcd', machine: 'cp1' }, 'end-etcd cp1'],
      [{ do: 'clear', cluster: 'c', founding: 'f', member: 'm', machine: 'n' }, 'clear c f m n'],
      [RESTORE, 'restore-etcd c f g m n 2001:db8::1 etcdutl 1000'],
      [
        { ...RESTORE, image: 'registry.k8s.io/etcd:3.6.8-0' },
        'restore-etcd c f g m n 2001:db8::1 etcdutl 1000 registry.k8s.io/etcd:3.6.8-0',
      ],
      [
        { ...RESTORE, do: 'restore-snapshot', snapshot: 's-1' },
        'restore-snapshot c f g m n 2001:db8::1 etcdutl 1000 s-1',
      ],
      [
        { ...RESTORE, do: 'restore-snapshot', snapshot: 's-1', image: 'registry.k8s.io/etcd:3.6.8-0' },
        'restore-snapshot c f g m n 2001:db8::1 etcdutl 1000 s-1 registry.k8s.io/etcd:3.6.8-0',
      ],
      [{ do: 'snapshot-etcd', id: 's-1' }, 'snapshot-etcd s-1'],
      [{ do: 'reboot', id: 'b0-0t' }, 'reboot b0-0t'],
      [{ do: 'check', check: 'port', of: ['2379', 'etcd'] }, 'check port 2379 etcd'],
      [{ do: 'directory', mode: 0o700, path: '/d' }, 'directory 700 /d'],
      [{ do: 'put', mode: 0o40, path: '/p', content }, `put 040 ${sha} /p`],
      [
        { do: 'put-with-key', mode: 0o600, path: '/p', content, leaf: 'kubelet', append: 'pem' },
        `put-with-key 600 ${sha} /p kubelet pem`,
      ],
      [
        { do: 'put-pair', mode: 0o644, path: '/p.crt', content, key: { leaf: 'etcd-peer' } },
        `put-pair 644 ${sha} /p.crt etcd-peer`,
      ],
      [
        {
          do: 'put-pair',
          mode: 0o644,
          path: '/p.crt',
          content,
          key: { content: { ...content, secret: true } },
        },
        `put-pair 644 ${sha} /p.crt ${sha}`,
      ],
      [
        { do: 'put-owned', mode: 0o600, path: '/p', content, owner: 'app', group: 'adm' },
        `put-owned 600 ${sha} /p app adm`,
      ],
      [{ do: 'put-password', user: 'ops', content }, `put-password ops ${sha}`],
      [{ do: 'secret', id: 'app:token', tag: 'ab12' }, 'secret app:token ab12'],
      [
        { do: 'fetch', mode: 0o755, path: '/p', url: 'http://10.0.0.1:8080/assets/x/y', sha256: sha },
        `fetch 755 ${sha} /p http://10.0.0.1:8080/assets/x/y`,
      ],
      [{ do: 'unpack', directory: '/d', url: 'http://h/x', sha256: sha }, `unpack ${sha} /d http://h/x`],
      [{ do: 'link', to: '../x', path: '/l', onlyIfAbsent: true }, 'link absent /l ../x'],
      [{ do: 'remove', path: '/p' }, 'remove /p'],
      [{ do: 'load', what: 'sysctl', digest: 'd' }, 'load sysctl d'],
      [{ do: 'run', unit: 'a@1.service', digest: 'd' }, 'run a@1.service d'],
      [{ do: 'reload', unit: 'a.service', digest: 'd' }, 'reload a.service d'],
      [{ do: 'stop', unit: 'a.service' }, 'stop a.service'],
      [
        { do: 'probe', listener: 'etcd-peer', address: '2001:db8::1', port: 2380, probes: [] },
        'probe etcd-peer 2001:db8::1 2380',
      ],
      [
        { do: 'probe', listener: 'kubelet', address: '10.0.0.1', port: 10250, probes: [PROBE, PROBE] },
        `probe kubelet 10.0.0.1 10250 ${PROBE} ${PROBE}`,
      ],
      [
        { do: 'read-encryption', address: '10.0.0.1', port: 6443, probe: PROBE },
        `read-encryption 10.0.0.1 6443 ${PROBE}`,
      ],
      [{ do: 'step', step: 'etcd' }, 'step etcd'],
      [{ do: 'hold', code: 'no-quorum', text: 'two\nlines\u0000 ' }, 'hold no-quorum two lines'],
    ];
    for (const [line, text] of lines) expect(of(line).text.split('\n')[1]).toBe(text);
  });

  test('cannot be encoded if the agent would refuse or misread it', () => {
    const wrong: readonly PlanLine[] = [
      put('relative', ''),
      put('/a b', ''),
      put('/a/../b', ''),
      put('/a\nremove /etc', ''),
      put('/', ''),
      { do: 'run', unit: '-x', digest: 'd' },
      { do: 'run', unit: 'a/b', digest: 'd' },
      { do: 'run', unit: 'a', digest: '' },
      { do: 'step', step: '' },
      { do: 'bind', directory: '../etc', path: '/x' },
      { do: 'check', check: 'fsync', of: ['$(x)'] },
      { do: 'link', to: 'a b', path: '/x', onlyIfAbsent: false },
      { do: 'hold', code: 'a b', text: 'x' },
      { ...RESTORE, image: '--help' },
      { ...RESTORE, image: '../etcd' },
      { ...RESTORE, image: 'etcd:1 x' },
      { ...RESTORE, image: '' },
    ];
    for (const line of wrong) expect(() => of(line)).toThrow(UnsayablePlan);
  });
});

const FACTS = {
  agent: '1',
  bootid: 'b',
  machineid: 'm',
  clock: '1700000000',
  disk: 'unused',
  wal: 'absent',
  etcd: 'down',
};
const decode = (fields: Record<string, string>) => decodeFacts(new URLSearchParams(fields).toString());

describe('facts', () => {
  test('are read from a form', () => {
    const pin = 'a'.repeat(64);
    const read = decode({
      ...FACTS,
      disk: 'ours',
      device: '/dev/nvme0n1',
      filesystem: '5EED0000-1111-4222-8333-444455556666',
      mounted: 'yes',
      marker: 'c f m n',
      wal: 'present',
      etcd: 'serving',
      etcdrev: '-',
      api: 'ready',
      apirev: '0123abcd',
      applied: pin,
      step: 'etcd',
      hold: 'guard',
      holdtext: ' a\nb\u001b[31m ',
      joined: '-----BEGIN CERTIFICATE-----',
      runs: 'kubelet 1.36.3\netcd 3.6.8\ncilium 1.18.2\n',
      image: 'b'.repeat(64),
      data: 'serial=S1',
      prefetched: `${'0'.repeat(16)} failed x is not found`,
      objects: 'Error from server:\nno ',
      revision: `77.${'p'.repeat(43)}`,
      bootdisk: 'kept',
      boottext: '/dev/vda holds\nit',
      'pin.kubelet': pin,
      'csr.kubelet': 'PEM',
      etcddisk: 'ours',
      etcddevice: '/dev/sdb',
      etcdfilesystem: 'ABC-1',
      etcdmarker: 'c f m n',
      etcdencrypted: 'tpm',
      later: 'unknown',
    });
    expect(read).toEqual({
      ok: true,
      facts: {
        agent: '1',
        bootId: 'b',
        machineId: 'm',
        clock: 1_700_000_000_000,
        disk: {
          state: 'ours',
          device: '/dev/nvme0n1',
          filesystem: '5eed0000-1111-4222-8333-444455556666',
          mounted: true,
        },
        marker: { cluster: 'c', founding: 'f', member: 'm', machine: 'n' },
        etcdDisk: {
          disk: {
            state: 'ours',
            device: '/dev/sdb',
            filesystem: 'abc-1',
            mounted: false,
            encrypted: 'tpm',
          },
          marker: { cluster: 'c', founding: 'f', member: 'm', machine: 'n' },
        },
        etcd: { wal: 'present', health: 'serving', revision: '-' },
        apiserver: { health: 'ready', revision: '0123abcd' },
        applied: pin,
        step: 'etcd',
        hold: { code: 'guard', text: 'a b [31m' },
        joined: true,
        runs: { kubelet: '1.36.3', etcd: '3.6.8' },
        image: 'b'.repeat(64),
        dataSelector: 'serial=S1',
        prefetched: { list: '0'.repeat(16), fault: 'x is not found' },
        objects: 'Error from server: no',
        claim: { revision: 77, proof: 'p'.repeat(43) },
        bootDisk: { state: 'kept', text: '/dev/vda holds it' },
        pins: new Map([['kubelet', pin]]),
        requests: new Map([['kubelet', 'PEM']]),
      },
    });
  });

  test('whose disk a plan could not name are no facts, whatever the words are made of', () => {
    const pieces = ['/', '.', '..', '-', 'dev', 'vda', '/dev/disk/by-id', 'a', '0', ' ', '%'];
    let good = 0;
    for (let n = 0; n < 20_000; n++) {
      const some = (): string =>
        Array.from({ length: 1 + (n % 5) }, () => pieces[Math.floor(Math.random() * pieces.length)]).join('');
      const read = decode({ ...FACTS, disk: 'ours', device: `/${some()}`, filesystem: some() });
      if (!read.ok || read.facts.disk.state !== 'ours') continue;
      good++;
      const { device, filesystem } = read.facts.disk;
      expect(() => of({ do: 'create-data', device, filesystem })).not.toThrow();
    }
    expect(good).toBeGreaterThan(0);
  });

  test('without a proof claim nothing about the store', () => {
    for (const revision of ['77', '-1', '77.', `77.${'p'.repeat(42)}`, `77.${'p'.repeat(43)}.x`, '0'])
      expect(decode({ ...FACTS, revision })).toMatchObject({ ok: true });
    const read = decode({ ...FACTS, revision: '999999999999999' });
    expect(read.ok && read.facts.claim).toBeUndefined();
  });

  test('with a missing or invalid field are refused, and the message names the field', () => {
    const wrong: readonly (readonly [Record<string, string>, string])[] = [
      [{ ...FACTS, agent: '' }, 'agent'],
      [{ ...FACTS, clock: 'soon' }, 'clock'],
      [{ ...FACTS, disk: 'mine' }, 'disk'],
      [{ ...FACTS, disk: 'blank' }, 'device'],
      [{ ...FACTS, disk: 'ours', device: '/dev/vda' }, 'filesystem'],
      [{ ...FACTS, disk: 'blank', device: '/dev/../etc/shadow' }, 'device'],
      [{ ...FACTS, disk: 'blank', device: '/..' }, 'device'],
      [{ ...FACTS, disk: 'ours', device: '/dev/vda', filesystem: '-f' }, 'filesystem'],
      [{ ...FACTS, wal: 'maybe' }, 'wal'],
      [{ ...FACTS, etcd: '' }, 'etcd'],
      [{ ...FACTS, apirev: 'a1', api: '' }, 'api'],
      [{ ...FACTS, apirev: 'a 1', api: 'ready' }, 'apirev'],
      [{ ...FACTS, applied: 'x' }, 'applied'],
      [{ ...FACTS, bootdisk: 'gone' }, 'bootdisk'],
      [{ ...FACTS, 'pin.kubelet': 'x' }, 'pin.kubelet'],
      [{ ...FACTS, 'csr.nobody': 'x' }, 'csr.nobody'],
      [{ ...FACTS, bootid: 'a b' }, 'bootid'],
    ];
    for (const [fields, name] of wrong)
      expect([name, decode(fields)]).toEqual([name, { ok: false, text: expect.stringContaining(name) }]);
    expect(decodeFacts('x'.repeat(FACTS_LIMIT + 1)).ok).toBe(false);
  });

  test('a marker that Muster did not write is not read as an absent one', () => {
    for (const marker of ['garbage', 'a b c d e', 'a b c \u00ff'])
      expect(decode({ ...FACTS, marker })).toMatchObject({ facts: { marker: { machine: '?' } } });
  });

  test('of any octets are read or refused, and texts for people have no control characters', () => {
    const name = fc.oneof(
      fc.constantFrom(...Object.keys(FACTS), 'holdtext', 'detail', 'hold', 'marker', 'device'),
      fc.string(),
    );
    const octets = fc.uint8Array({ maxLength: 60 }).map((some) => Buffer.from(some).toString('latin1'));
    const value = fc.oneof(
      octets,
      fc.constantFrom('ours', 'several', 'foreign', '/dev/x', 'guard', '1', 'a b c d'),
    );
    fc.assert(
      fc.property(fc.dictionary(name, value), octets, (fields, tail) => {
        const read = decodeFacts(`${new URLSearchParams({ ...FACTS, ...fields })}${tail}`);
        if (!read.ok) return;
        const { hold, disk } = read.facts;
        const said = `${hold?.code ?? ''}${hold?.text ?? ''}${'detail' in disk ? disk.detail : ''}`;
        expect(said).not.toMatch(/[\p{Cc}\p{Cf}]/u);
      }),
      { numRuns: 300 },
    );
  });
});

test('nearly full filesystems are read, and no path that is none', () => {
  const full = '/ 97\n/var/lib/muster 90\n../etc 91\n/a b 92';
  expect(decode({ ...FACTS, full })).toMatchObject({
    facts: { full: { '/': '97', '/var/lib/muster': '90' } },
  });
  expect(decode({ ...FACTS, full: '' })).not.toHaveProperty('facts.full');
});

test('the last words of programs that ended are read, without what looks like a secret', () => {
  const word = 'k'.repeat(48);
  for (const [given, kept] of [
    ['failed to open database: invalid database', 'failed to open database: invalid database'],
    ['Error: password=hunter2, next', 'Error: password=***, next'],
    ['auth: Bearer abc.def', 'auth: Bearer ***'],
    ['dial https://user:pw@host/', 'dial https://user:***@host/'],
    [`token eyJhbGciOi.eyJzdWIi.c2ln and ${word}`, 'token *** and ***'],
  ])
    expect(withoutSecrets(given!)).toBe(kept);
});
