/** How the agent gets its certificate, which servers it trusts, and when it polls again. */
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Machine, openssl, Planner, SHELLS } from './agent-kit.ts';

let planner: Planner;
let machine: Machine;

beforeEach(async () => {
  planner = await Planner.open();
  machine = new Machine(planner);
});

afterEach(() => {
  machine.close();
  planner.close();
});

const setting = (line: string): void =>
  fs.appendFileSync(machine.path('/etc/muster/agent.conf'), `${line}\n`);

test('an agent does not send its ticket to a server of another CA, and a boot report says so', async () => {
  const other = await Planner.open();
  machine.write('/etc/muster/ca.crt', other.authority);
  machine.write(
    '/etc/muster/muster-report.sh',
    'echo "$@" >"$MUSTER_ROOT/report.new"; mv "$MUSTER_ROOT/report.new" "$MUSTER_ROOT/report"\n',
  );
  other.close();
  const { status, said } = await machine.poll();
  expect(status).toBe(1);
  expect(said).toContain('certificate');
  expect(planner.asked).toEqual([]);
  await expect.poll(() => machine.exists('/report'), { timeout: 20_000 }).toBe(true);
  expect(machine.read('/report')).toMatch(
    /^failed the agent does not believe the certificate of https:.* its clock says 2/,
  );
});

test('the agent ignores proxies and certificates of the environment and a .curlrc', async () => {
  const home = machine.path('/home');
  machine.write('/home/.curlrc', 'insecure\nproxy = http://127.0.0.1:9\n');
  const proxies = Object.fromEntries(
    ['http_proxy', 'https_proxy', 'HTTPS_PROXY', 'ALL_PROXY'].map((name) => [name, 'http://127.0.0.1:9']),
  );
  expect(await machine.poll(SHELLS[0], { HOME: home, ...proxies, CURL_CA_BUNDLE: '/dev/null' })).toEqual({
    status: 0,
    said: '',
  });
  const other = await Planner.open();
  machine.write('/system.crt', planner.authority);
  machine.write('/etc/muster/ca.crt', other.authority);
  other.close();
  const before = planner.asked.length;
  const system = machine.path('/system.crt');
  expect(
    (await machine.poll(SHELLS[0], { HOME: home, SSL_CERT_FILE: system, CURL_CA_BUNDLE: system })).status,
  ).toBe(1);
  expect(planner.asked).toHaveLength(before);
});

test('ticket and keys are readable by root only, on no command line, and in no other file', async () => {
  const log = machine.path('/argv');
  for (const name of ['curl', 'openssl', 'cp', 'mv', 'tar', 'sync']) {
    const real = ['/usr/bin', '/bin'].map((at) => path.join(at, name)).find((at) => fs.existsSync(at))!;
    machine.command(name, `#!/bin/sh\nprintf '%s\\n' "$*" >>"${log}"\nexec ${real} "$@"\n`);
  }
  const withKey = { do: 'put-with-key', mode: 0o600, leaf: 'kubelet' } as const;
  planner.plan([
    { do: 'request', leaf: 'kubelet', algorithm: 'ECDSA-P256' },
    { do: 'request', leaf: 'etcd-peer', algorithm: 'RSA-2048' },
    { ...withKey, path: '/etc/kubelet.pem', append: 'pem', content: { text: 'certificate\n' } },
    { ...withKey, path: '/etc/kubelet.conf', append: 'base64', content: { text: 'client-key-data: ' } },
  ]);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  const home = '/var/lib/muster/agent';
  const key = machine.read(`${home}/keys/kubelet.key`);
  expect(key).toMatch(/^-----BEGIN EC PRIVATE KEY-----\n/);
  expect(machine.read('/etc/kubelet.pem')).toBe(`certificate\n${key}`);
  expect(machine.read('/etc/kubelet.conf')).toBe(`client-key-data: ${Buffer.from(key).toString('base64')}\n`);
  for (const at of ['/agent.key', '/keys/kubelet.key', '/keys/etcd-peer.key'])
    expect(machine.mode(home + at)).toBe('600');
  for (const at of [home, `${home}/keys`, '/run/muster']) expect(machine.mode(at)).toBe('700');
  const argv = fs.readFileSync(log, 'utf8');
  expect(argv).toContain('/agent/redeem');
  for (const secret of [planner.ticket, 'PRIVATE', key.split('\n')[1]!]) expect(argv).not.toContain(secret);
  const left = fs.readdirSync(machine.path('/run/muster'), { recursive: true, encoding: 'utf8' });
  for (const name of left) {
    const full = machine.path(`/run/muster/${name}`);
    if (fs.statSync(full).isFile()) expect(fs.readFileSync(full, 'utf8')).not.toMatch(/PRIVATE|tick\/et/);
  }
});

test('after a lost answer to the ticket the agent asks again with the same key', async () => {
  planner.redeemAnswers.push(
    { status: 200, body: 'x'.repeat(5000), cutAt: 10 },
    { status: 503 },
    { status: 200, body: 'not a certificate' },
  );
  for (let n = 0; n < 3; n++) expect((await machine.poll()).status).toBe(1);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  const requests = planner.asked
    .filter(({ path: asked }) => asked === '/agent/redeem')
    .map(({ form }) => form.get('csr')!);
  expect(requests).toHaveLength(4);
  expect(new Set(requests.map((csr) => openssl(['req', '-noout', '-pubkey'], csr))).size).toBe(1);
});

test('the agent rejects a certificate for another key than its own', async () => {
  const key = machine.path('/other.key');
  openssl(['ecparam', '-genkey', '-name', 'prime256v1', '-noout', '-out', key]);
  const csr = openssl(['req', '-new', '-key', key, '-subj', '/CN=x']);
  planner.redeemAnswers.push({ status: 200, body: await planner.certify(csr) });
  expect((await machine.poll()).status).toBe(1);
  expect(machine.exists('/var/lib/muster/agent/agent.crt')).toBe(false);
});

test('when its certificate is not accepted any more, the agent uses its ticket again with the same key', async () => {
  await machine.poll();
  const before = machine.read('/var/lib/muster/agent/agent.crt');
  planner.answers.push({ status: 401 });
  expect((await machine.poll()).status).toBe(1);
  expect(planner.asked.map(({ path: asked }) => asked)).toEqual([
    '/agent/redeem',
    '/agent/poll',
    '/agent/poll',
    '/agent/redeem',
  ]);
  expect(machine.read('/var/lib/muster/agent/agent.crt')).not.toBe(before);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
});

/** Gives the machine a `date` that is `seconds` off; curl and openssl see the host's clock. */
function clockOff(seconds: number): void {
  const off = machine.path('/off');
  machine.write('/off', `${seconds}\n`);
  machine.command(
    'date',
    `#!/bin/sh
read -r off <"${off}"
case $1 in
  -s) echo $((\${2#@} - $(/bin/date +%s))) >"${off}" ;;
  +%s) echo $(($(/bin/date +%s) + off)) ;;
  *) exec /bin/date "$@" ;;
esac
`,
  );
}
const off = () => Number(machine.read('/off'));
const now = () => Math.floor(Date.now() / 1000);

test('the agent sets the clock forward to the server’s time if it may, and only when it is more than a minute behind', async () => {
  const after = async (mine: number): Promise<number> => {
    clockOff(mine);
    planner.answers.push({ status: 204, headers: { 'Muster-Time': String(now()) } });
    await machine.poll();
    return off();
  };
  expect(await after(-7200)).toBe(-7200);
  setting('clock=set');
  expect(Math.abs(await after(-7200))).toBeLessThan(60);
  expect(await after(-10)).toBe(-10);
  expect(await after(7200)).toBe(7200);
  expect(planner.facts().clock / 1000 - now()).toBeGreaterThan(7000);
});

test('a running machine takes no step of a year from its server alone, and one that was moved steps back', async () => {
  setting('clock=set');
  clockOff(0);
  const told = async (days: number): Promise<number> => {
    planner.answers.push({ status: 204, headers: { 'Muster-Time': String(now() + days * 86_400) } });
    await machine.poll();
    return Math.round(off() / 86_400) + 0;
  };
  await machine.poll();
  expect(await told(400)).toBe(0);
  // Its own clock is wrong by its own certificate: then it follows, in both directions.
  clockOff(400 * 86_400);
  expect(await told(0)).toBe(0);
  clockOff(-400 * 86_400);
  expect(await told(0)).toBe(0);
  // A step that the server made itself is undone, and reported meanwhile.
  expect(await told(0.8)).toBe(1);
  await machine.poll();
  expect(planner.facts().clockMoved).toBeGreaterThan(0);
  expect(await told(0)).toBe(0);
});

test.for([
  ['ten years behind', -315_360_000],
  ['ten years ahead', 315_360_000],
  ['at the beginning of 1970', -Math.floor(Date.now() / 1000) + 30],
] as const)('a clock %s is set by the first configuration before anything is asked', async ([, mine]) => {
  clockOff(mine);
  const written = now() - 20;
  setting(`clock=set\ntime=${written}`);
  fs.utimesSync(machine.path('/etc/muster/agent.conf'), written + mine, written + mine);
  await machine.poll();
  expect(Math.abs(off())).toBeLessThan(15);
});

test('a correct clock is not set back by a configuration that a slow boot wrote long after it was made', async () => {
  clockOff(0);
  setting(`clock=set\ntime=${now() - 600}`);
  fs.utimesSync(machine.path('/etc/muster/agent.conf'), now() - 5, now() - 5);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(off()).toBe(0);
});

test('the time in a first configuration of an earlier boot is ignored', async () => {
  clockOff(0);
  // It was written a day ago with a time an hour earlier; this boot was 100 seconds ago.
  setting(`clock=set\ntime=${now() - 90_000}`);
  fs.utimesSync(machine.path('/etc/muster/agent.conf'), now() - 86_400, now() - 86_400);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(off()).toBe(0);
});

test('the agent reports the highest revision that the server ever sent, also after a restart', async () => {
  await machine.poll();
  const sent = (revision: number) => `${revision}.${'a'.repeat(43)}`;
  // A revision without a proof is worth nothing.
  for (const revision of ['99', sent(41), sent(7), 'x', `${sent(55)};x`, '60.', '61.a.b']) {
    planner.answers.push({ status: 204, headers: { 'Muster-Revision': revision } });
    await machine.poll();
  }
  await machine.poll();
  expect(planner.facts().claim?.revision).toBe(41);
});

test('the newest checkpoint of the security log that the server ever told is said back, also after a restart', async () => {
  const told = (sequence: number) => `${sequence}.${'a'.repeat(64)}.${'B'.repeat(86)}`;
  await machine.poll();
  for (const value of [told(41), told(7), 'x', `${told(99)};rm`, '$(reboot)']) {
    planner.answers.push({ status: 204, headers: { 'Muster-Checkpoint': value } });
    await machine.poll();
  }
  await machine.poll();
  expect(planner.facts().seenCheckpoint).toEqual({
    sequence: 41,
    hash: 'a'.repeat(64),
    signature: 'B'.repeat(86),
  });
});

test('the agent polls again after the server’s interval, and waits longer after each failure', async () => {
  machine.command(
    'sleep',
    '#!/bin/sh\necho "$1" >>"$MUSTER_ROOT/slept"\n[ "$(wc -l <"$MUSTER_ROOT/slept")" -lt 20 ] || exec /bin/sleep 1000\n',
  );
  const answers = [30, 0, undefined, 100_000].map((retry) => ({
    status: 204,
    headers: retry === undefined ? {} : { 'Retry-After': String(retry) },
  }));
  const failures = Array.from({ length: 6 }, () => ({ status: 503, headers: { 'Retry-After': '2' } }));
  planner.answers.push(...answers, ...failures);
  machine.start();
  const slept = () => (machine.exists('/slept') ? machine.read('/slept').trim().split('\n').map(Number) : []);
  await expect.poll(() => slept().length, { timeout: 100_000 }).toBe(20);
  const least = slept().filter((_, n) => n % 2 === 0);
  const more = slept().filter((_, n) => n % 2 === 1);
  expect(least.map(Math.floor)).toEqual([30, 0, 10, 300, 2, 3, 7, 15, 15, 15]);
  // The pause is random, so only its bounds are known.
  for (const [n, pause] of least.entries()) expect(more[n]).toBeLessThanOrEqual(Math.floor(pause) / 4);
});

test('processes that an agent left behind do not prevent the next agent from running', async () => {
  machine.command(
    'systemctl',
    '#!/bin/sh\n[ "$1" != is-active ] || exit 1\n[ "$1" != start ] || /bin/sleep 1000 >/dev/null 2>&1 &\n',
  );
  planner.plan([{ do: 'run', unit: 'a.service', digest: 'd' }]);
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
  expect(await machine.poll()).toEqual({ status: 0, said: '' });
});

test.for(SHELLS)(
  'by %s, an agent that ends because its machine shuts down reports it; one that is only stopped reports nothing',
  async (shell) => {
    machine.command('systemctl', '#!/bin/sh\n[ "$1" != is-system-running ] || cat "$MUSTER_ROOT/manager"\n');
    const ended = async (state: string) => {
      machine.write('/manager', `${state}\n`);
      const polls = planner.asked.length;
      const agent = machine.start(shell);
      await expect
        .poll(() => planner.asked.slice(polls).some(({ path: asked }) => asked === '/agent/poll'), {
          timeout: 100_000,
        })
        .toBe(true);
      // Like the service manager, which kills all processes of the unit.
      process.kill(-agent.pid!, 'SIGTERM');
      await once(agent, 'exit');
      return planner.asked.slice(polls).filter(({ path: asked }) => asked === '/agent/leave');
    };
    expect(await ended('running')).toEqual([]);
    const [said, ...more] = await ended('stopping');
    expect([said?.by, said?.form.get('bootid'), more]).toEqual([
      'cp1',
      'b0070000-0000-4000-8000-000000000001',
      [],
    ]);
  },
);

test('a second agent does not disturb the first', async () => {
  machine.command('sleep', '#!/bin/sh\n: >"$MUSTER_ROOT/asleep"\nexec /bin/sleep 1000\n');
  machine.start();
  await expect.poll(() => machine.exists('/asleep'), { timeout: 100_000 }).toBe(true);
  const asked = planner.asked.length;
  expect(await machine.poll()).toEqual({ status: 1, said: 'muster-agent: another agent runs already\n' });
  expect(planner.asked).toHaveLength(asked);
});
