import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { commandTree } from '../../../scripts/command-tree.ts';
import { parseMac } from '../../../src/base/mac.ts';
import { faultLine } from '../../../src/cli/io.ts';
import { openWorld, type World } from '../api/world.ts';
import { type Ran, run } from './run.ts';

let world: World;
beforeEach(async () => {
  world = await openWorld();
});
afterEach(() => world.close());

const muster = (...args: string[]): Promise<Ran> => run(args, { socket: world.socket });

/** A file beside the configuration directory. */
function file(name: string, text: string): string {
  const full = path.join(world.directory, name);
  fs.writeFileSync(full, text);
  return full;
}

const machine = (name: string, mac: string, more = ''): string =>
  `apiVersion: muster/v1\nkind: Machine\nmetadata: {name: ${name}}\nspec: {macs: ["${mac}"], profile: worker${more}}\n`;

describe('get', () => {
  it('lists machines with phase, profile, address, age and reason', async () => {
    world.roster.discover({
      bootMac: parseMac('52:54:00:bb:00:01')!,
      macs: [parseMac('52:54:00:bb:00:01')!],
      network: 'lan',
    });
    const { code, out } = await muster('get', 'machines');
    expect(code).toBe(0);
    expect(out.replace(/ [0-9]+[a-z0-9]+ /g, ' AGE ')).toMatch(
      /^NAME +CONDITION +PROFILE +ADDRESS +AGE +REASON\nm-525400bb0001 +unknown +<none> +<none> +AGE +unknown_machine\nnode-1 +registered +worker +<none> +AGE +<none>\n$/,
    );
  });

  it('knows kinds by plural, singular and short name, and KIND/NAME', async () => {
    const outs = await Promise.all(
      [['machines'], ['machine'], ['m'], ['machine/node-1'], ['m', 'node-1']].map((words) =>
        muster('get', ...words, '-o', 'name'),
      ),
    );
    expect(outs.map(({ out }) => out)).toEqual(Array.from({ length: 5 }, () => 'machine/node-1\n'));
  });

  it('prints one as a document and several as a list', async () => {
    const one = JSON.parse((await muster('get', 'machine', 'node-1', '-o', 'json')).out);
    expect(one).toMatchObject({ kind: 'Machine', metadata: { name: 'node-1' } });
    const all = JSON.parse((await muster('get', 'machines', '-o', 'json')).out);
    expect(all).toMatchObject({ kind: 'List', items: [{ kind: 'Machine' }] });
    expect((await muster('get', 'profile/worker', '-o', 'yaml')).out).toMatch(
      /^apiVersion: muster\/v1\nkind: Profile\n/,
    );
  });

  it('shows with -o wide whose a document is', async () => {
    expect((await muster('get', 'networks', '-o', 'wide')).out).toMatch(/ORIGIN[\s\S]*all\.yaml:1 /);
  });

  it('selects by labels', async () => {
    expect((await muster('get', 'm', '-l', 'rack=a', '-o', 'name')).out).toBe('machine/node-1\n');
    const none = await muster('get', 'm', '-l', 'rack!=a');
    expect(none).toMatchObject({ code: 0, out: '', err: 'No machines found.\n' });
    expect((await muster('get', 'm', '-l', 'rack')).code).toBe(2);
  });

  it('says what there is when a kind or a name is not', async () => {
    expect(await muster('get', 'pods')).toMatchObject({
      code: 2,
      out: '',
      err: expect.stringContaining('there are networks, images'),
    });
    expect(await muster('get', 'machine', 'x')).toMatchObject({
      code: 1,
      err: expect.stringContaining('E_NOT_FOUND'),
    });
  });

  it('leaves out the headings when asked to', async () => {
    expect((await muster('get', 'machines', '--no-headers')).out).toMatch(/^node-1 +registered .*\n$/);
    expect((await muster('get', 'events', '--no-headers')).out).not.toContain('SUBJECT');
  });

  it('goes on with what changes, in one table, and says what is gone', async () => {
    const stop = new AbortController();
    const add = (name: string) => muster('machine', 'add', '52:54:00:bb:00:01', '--name', name);
    const steps: [RegExp, () => unknown][] = [
      [/node-1 /, () => add('node-22')],
      [/node-22 /, () => muster('delete', 'machine/node-22').then(() => add('node-3'))],
      [/node-3 /, () => stop.abort()],
    ];
    const watched = await run(['get', 'm', '-w'], {
      socket: world.socket,
      signal: stop.signal,
      onOut: (out) => {
        if (steps[0]?.[0].test(out)) void steps.shift()![1]();
      },
    });
    expect(watched.out).toMatch(/^NAME +CONDITION .*\nnode-1 .*\n/);
    expect(watched.out.match(/NAME/g)).toHaveLength(1);
    expect(watched.err).toBe('machine/node-22 is gone\n');
    expect(watched.code).toBe(0);
  });

  it('watches documents, one after the other, in every format', async () => {
    const stop = new AbortController();
    const name = file(
      'p.yaml',
      'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: p}\nspec: {boot: hold}\n',
    );
    const watched = run(['get', 'profiles', '--watch', '-o', 'name'], {
      socket: world.socket,
      signal: stop.signal,
      onOut: (out) => {
        if (out === 'profile/worker\n') void muster('apply', '-f', name);
        if (out === 'profile/worker\nprofile/p\n') stop.abort();
      },
    });
    expect(await watched).toMatchObject({ code: 0, err: '' });
    expect(await muster('get', 'profile/nope', '-w')).toMatchObject({
      code: 1,
      err: expect.stringContaining('E_NOT_FOUND'),
    });
    expect(await muster('get', 'leases', '-w')).toMatchObject({ code: 2 });
  });

  it('lists leases and events', async () => {
    expect((await muster('get', 'leases')).err).toBe('No leases found.\n');
    world.deps.events.record({ kind: 'boot.session', subject: 'node-1' });
    expect((await muster('get', 'events')).out).toMatch(/^TIME +SUBJECT +EVENT[\s\S]*node-1 +boot\.session/);
  });
});

describe('apply, diff, delete', () => {
  it('go through a document as kubectl would', async () => {
    const name = file('node-2.yaml', machine('node-2', '52:54:00:aa:00:02'));
    expect(await muster('diff', '-f', name)).toMatchObject({
      code: 1,
      out: expect.stringContaining('+kind: Machine'),
    });
    expect((await muster('apply', '-f', name, '--dry-run')).out).toBe('machine/node-2 created (dry run)\n');
    expect((await muster('apply', '-f', name)).out).toBe('machine/node-2 created\n');
    expect((await muster('apply', '-f', name)).out).toBe('machine/node-2 unchanged\n');
    expect(await muster('diff', '-f', name)).toEqual({ code: 0, out: '', err: '' });
    file('node-2.yaml', machine('node-2', '52:54:00:aa:00:02', ', addresses: [10.77.0.9]'));
    const changed = await muster('diff', '-f', name);
    expect(changed.code).toBe(1);
    expect(changed.out).toMatch(
      /^--- live\/Machine\/node-2\n\+\+\+ new\/Machine\/node-2\n@@ .*\n[\s\S]*^\+ {2}addresses:\n\+ {4}- 10\.77\.0\.9$/m,
    );
    expect((await muster('apply', '-f', name)).out).toBe('machine/node-2 configured\n');
    expect((await muster('delete', 'machine', 'node-2')).out).toBe('machine "node-2" deleted\n');
    expect((await muster('delete', 'machine', 'node-2')).code).toBe(1);
  });

  it('delete what files hold, what names others first, and what is not there if told so', async () => {
    const profile = 'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: api1}\nspec: {boot: hold}\n---\n';
    const text = profile + machine('mm', '52:54:00:aa:00:02').replace('worker', 'api1');
    const name = file('two.yaml', text);
    await muster('apply', '-f', name);
    expect(await muster('delete', '-f', name)).toEqual({
      code: 0,
      out: 'machine "mm" deleted\nprofile "api1" deleted\n',
      err: '',
    });
    expect(await muster('delete', '-f', name)).toMatchObject({ code: 1 });
    expect(await muster('delete', '-f', name, '--ignore-not-found')).toEqual({ code: 0, out: '', err: '' });
    await muster('apply', '-f', name);
    expect((await muster('delete', 'machine/mm', 'profile/api1')).out).toBe(
      'machine "mm" deleted\nprofile "api1" deleted\n',
    );
    for (const words of [[], ['machine', 'mm', '-f', name], ['machine/mm', 'profile']])
      expect(await muster('delete', ...words)).toMatchObject({ code: 2, out: '' });
  });

  it('delete all or nothing, and check as one change also when dry', async () => {
    const profile = 'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: api1}\nspec: {boot: hold}\n---\n';
    const name = file('two.yaml', profile + machine('mm', '52:54:00:aa:00:02').replace('worker', 'api1'));
    await muster('apply', '-f', name);
    expect(await muster('delete', '-f', name, '--dry-run')).toEqual({
      code: 0,
      out: 'machine "mm" deleted (dry run)\nprofile "api1" deleted (dry run)\n',
      err: '',
    });
    expect(await muster('delete', 'machine/mm', 'machine/nobody')).toEqual({
      code: 1,
      out: '',
      err: expect.stringContaining('there is no Machine "nobody" (E_NOT_FOUND)'),
    });
    expect((await muster('get', 'machine', 'mm', '-o', 'name')).code).toBe(0);
    expect((await muster('delete', 'profile/api1', 'machine/mm')).code).toBe(0);
  });

  it('say who needs what is to be deleted', async () => {
    const profile = 'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: api1}\nspec: {boot: hold}\n---\n';
    const text = profile + machine('mm', '52:54:00:aa:00:02').replace('worker', 'api1');
    await muster('apply', '-f', file('two.yaml', text));
    expect(await muster('delete', 'profile/api1')).toEqual({
      code: 1,
      out: '',
      err: 'muster: Profile/api1 is named by Machine/mm; change or delete that first (E_REFERENCE)\n',
    });
  });

  it('take what get printed', async () => {
    await muster('apply', '-f', file('node-2.yaml', machine('node-2', '52:54:00:aa:00:02')));
    const shown = file('shown.yaml', (await muster('get', 'machine/node-2', '-o', 'yaml')).out);
    expect(await muster('apply', '-f', shown)).toMatchObject({ code: 0, out: 'machine/node-2 unchanged\n' });
  });

  it('name file, line, column and field of every fault', async () => {
    const name = file(
      'bad.yaml',
      'apiVersion: muster/v1\nkind: Machine\nmetadata: {name: x}\nspec:\n  macs: []\n  profil: y\n',
    );
    const { code, out, err } = await muster('apply', '-f', name);
    expect(code).toBe(1);
    expect(out).toBe('');
    expect(err.split('\n').slice(0, 2)).toEqual([
      expect.stringMatching(/bad\.yaml:5:9: spec\.macs: .* \(E_SCHEMA\)$/),
      expect.stringMatching(
        /bad\.yaml:6:3: spec\.profil: unknown key "profil"; did you mean "profile"\? \(E_SCHEMA\)$/,
      ),
    ]);
  });

  it('say what is missing on this side', async () => {
    expect(await muster('apply')).toMatchObject({ code: 2, err: expect.stringContaining('--filename') });
    expect(await muster('apply', '-f', '/nowhere.yaml')).toMatchObject({
      code: 1,
      err: expect.stringMatching(/no such file or directory \(E_FILE_READ\)/),
    });
    expect((await muster('delete', 'machine')).code).toBe(2);
  });
});

describe('validate', () => {
  it('checks a directory without a server', async () => {
    const config = path.join(world.directory, 'config');
    expect(await run(['validate', config])).toMatchObject({
      code: 0,
      out: 'valid: 4 documents in 1 file\n',
    });
    fs.writeFileSync(path.join(config, 'two.yaml'), machine('node-1', '52:54:00:aa:00:01'));
    const twice = await run(['validate', config]);
    expect(twice.code).toBe(1);
    expect(twice.err).toMatch(/two\.yaml:1:1: .*E_DUPLICATE/);
  });

  it('refuses an unquoted file mode with the reason', async () => {
    const name = file(
      'mode.yaml',
      'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: p}\nspec:\n  config:\n    files:\n      - {path: /x, mode: 0644, content: ""}\n',
    );
    const { code, err } = await run(['validate', '-f', name]);
    expect(code).toBe(1);
    expect(err).toMatch(/mode\.yaml:7:26: spec\.config\.files\[0\]\.mode: .*"0644".*decimal/);
  });

  it('finds in a directory what the server finds there', async () => {
    const config = path.join(world.directory, 'config');
    const profile = 'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: p}\nspec: {boot: hold}\n';
    fs.writeFileSync(path.join(config, 'latin1.yaml'), Buffer.from(`# f\xfcr\n${profile}`, 'latin1'));
    fs.writeFileSync(path.join(config, 'utf16.yml'), Buffer.from(`\ufeff${profile}`, 'utf16le'));
    fs.writeFileSync(path.join(config, 'bad.yaml'), 'kind: [');
    fs.writeFileSync(path.join(config, 'twice.yaml'), machine('node-1', '52:54:00:aa:00:01'));
    fs.writeFileSync(path.join(config, 'large.yaml'), Buffer.alloc(32 * 1024 * 1024 + 1, '#'));
    await world.deps.catalog.reload();
    const served = world.deps.catalog.faults().map(faultLine).sort();
    expect(served).toHaveLength(5);
    const { code, err } = await run(['validate', config]);
    expect(code).toBe(1);
    expect(
      err
        .split('\n')
        .filter((line) => line.startsWith('/'))
        .sort(),
    ).toEqual(served);
  });

  it('refuses with apply, diff and delete what the server would refuse as a file', async () => {
    const name = file('latin1.yaml', '');
    const text = `# f\xfcr\n${machine('node-2', '52:54:00:aa:00:02')}`;
    fs.writeFileSync(name, Buffer.from(text, 'latin1'));
    for (const words of [['validate'], ['apply'], ['diff']])
      expect(await muster(...words, '-f', name)).toMatchObject({
        out: '',
        err: expect.stringMatching(/latin1\.yaml:1:4: not UTF-8; save the file as UTF-8 \(E_YAML\)/),
      });
    expect(world.deps.catalog.get('Machine', 'node-2')).toBeUndefined();
  });

  it('warns of what will not work yet, and passes', async () => {
    const name = file(
      'p.yaml',
      'apiVersion: muster/v1\nkind: Profile\nmetadata: {name: p}\nspec: {image: later}\n',
    );
    expect(await run(['validate', '-f', name])).toMatchObject({
      code: 0,
      err: expect.stringMatching(/^warning: .*later/),
    });
  });

  it('names the components that are not among the binaries, so that only the tables judged them', async () => {
    const config = path.join(world.directory, 'cluster');
    fs.mkdirSync(config);
    fs.writeFileSync(
      path.join(config, 'blue.yaml'),
      `${fs.readFileSync(path.join(world.directory, 'config/all.yaml'), 'utf8')}
---
${machine('cp1', '52:54:00:aa:00:11', ', addresses: [10.77.0.11], dataDisk: {serial: data}')}---
apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec:
  trust: segment
  kubernetes:
    version: "1.36"
    endpoint: api.blue.test
    controlPlanes: [cp1]
    overrides: {flags: {kube-apiserver: {event-ttl: 2h}}}
`,
    );
    const binaries = path.join(world.directory, 'no-binaries');
    const { code, err } = await run(['validate', config, '--with-binaries', binaries]);
    expect(err).toMatch(
      /blue\.yaml:\d+:\d+: .*kube-apiserver are judged by Muster's tables of Kubernetes 1\.36, not by the programs: kube-apiserver is not here/,
    );
    expect(code).toBe(0);
  });

  it('finds a template that names what is not there', async () => {
    const config = path.join(world.directory, 'config');
    const text = machine(
      'node-3',
      '52:54:00:aa:00:03',
      ', config: {files: [{path: /x, content: "${nothing.here}"}]}',
    );
    fs.writeFileSync(path.join(config, 'three.yaml'), text);
    const { code, err } = await run(['validate', config]);
    expect(code).toBe(1);
    expect(err).toMatch(/nothing\.here/);
  });
});

describe('machines', () => {
  it('are added and accepted', async () => {
    expect(
      (await muster('machine', 'add', '5254.00bb.0001', '--profile', 'worker', '--name', 'node-5')).out,
    ).toBe('machine/node-5 created\n');
    const mac = parseMac('52:54:00:bb:00:02')!;
    world.roster.discover({ bootMac: mac, macs: [mac], network: 'lan' });
    expect((await muster('machine', 'accept', mac, '--profile', 'worker', '--name', 'node-6')).out).toBe(
      'machine/node-6 accepted\n',
    );
    expect((await muster('get', 'machine/node-6', '-o', 'json')).out).toContain('"profile": "worker"');
    expect((await muster('machine', 'add', 'nonsense')).code).toBe(2);
  });

  it('that nobody has seen are to be added, not accepted', async () => {
    expect((await muster('machine', 'accept', '5254.00bb.0009', '--profile', 'worker')).err).toMatch(
      /52:54:00:bb:00:09 .*`muster machine add 52:54:00:bb:00:09 --profile PROFILE` .*\(E_NOT_FOUND\)/,
    );
    expect((await muster('machine', 'accept', 'nobody')).err).toMatch(/`muster get machines` lists/);
  });

  it('are explained, and so are kinds and their fields', async () => {
    expect((await muster('explain', '52-54-00-AA-00-01')).out).toMatch(
      /^node-1\n[\s\S]*boots small as worker/,
    );
    expect((await muster('explain', 'node-1', '-o', 'json')).out).toContain('"decision"');
    expect((await muster('explain', 'machine')).out).toMatch(
      /^KIND: +Machine\n[\s\S]*spec <mapping> -required-/,
    );
    expect((await muster('explain', 'profile.spec.config.files.mode')).out).toMatch(
      /FIELD: +spec\.config\.files\.mode <text>/,
    );
    expect((await muster('explain', 'profile.config')).out).toContain('FIELD:   spec.config');
    expect(await muster('explain', 'profile.spec.imag')).toMatchObject({
      code: 1,
      err: expect.stringContaining('did you mean "image"?'),
    });
  });

  it('are rendered by the server and from a directory, with the same result but for the boot', async () => {
    const server = await muster('render', 'node-1', '-o', 'json');
    const local = await run(['render', '-f', path.join(world.directory, 'config'), 'node-1', '-o', 'json']);
    expect(server.code).toBe(0);
    const { files: _, ...fromServer } = JSON.parse(server.out);
    const { files: __, ...fromFiles } = JSON.parse(local.out);
    expect(fromFiles.merged.hostname).toBe(fromServer.merged.hostname);
    expect(Object.keys(JSON.parse(local.out).files)).toEqual(Object.keys(JSON.parse(server.out).files));
    expect((await muster('render', 'node-1', '--file', 'user-data')).out).toMatch(/^#cloud-config/);
    expect((await muster('render', 'node-1', '--file', 'x')).err).toContain('there are ');
    expect((await run(['render', '-f', world.directory, 'nobody'])).code).toBe(1);
  });

  it('are rendered from a directory for machines of clusters as well, without a secret', async () => {
    const directory = path.join(world.directory, 'with-a-cluster');
    fs.mkdirSync(directory);
    fs.writeFileSync(
      path.join(directory, 'all.yaml'),
      `apiVersion: muster/v1
kind: Network
metadata: {name: lan}
spec: {subnet: 10.77.0.0/24, gateway: 10.77.0.1, dhcp: {mode: reservations}}
---
apiVersion: muster/v1
kind: Image
metadata: {name: debian}
spec: {os: debian, arch: x86_64, configFormat: cloud-init, kernel: {sha256: "${'a'.repeat(64)}"}}
---
apiVersion: muster/v1
kind: Profile
metadata: {name: node}
spec: {image: debian}
---
apiVersion: muster/v1
kind: Cluster
metadata: {name: blue}
spec:
  trust: segment
  config: {files: [{path: /etc/of, content: "\${cluster.name}"}]}
  kubernetes: {version: "1.36", endpoint: 10.77.0.210, controlPlanes: [cp1]}
---
apiVersion: muster/v1
kind: Machine
metadata: {name: cp1}
spec: {macs: ["52:54:00:aa:00:31"], profile: node, addresses: [10.77.0.31]}
`,
    );
    const { out, code } = await run(['render', '-f', directory, 'cp1', '-o', 'json']);
    expect(code).toBe(0);
    const { files, merged } = JSON.parse(out);
    const unit = merged.units.find(({ name }: { name: string }) => name === 'muster-agent.service');
    expect(unit).toMatchObject({ enabled: true });
    expect(files['user-data']).toContain('ticket=[secret]');
    expect(merged.files).toContainEqual(expect.objectContaining({ path: '/etc/of', content: 'blue' }));
    expect(merged.network.interfaces[0].addresses).toEqual(['10.77.0.31/24']);
  });
});

describe('events', () => {
  it('are printed as a table, as JSON, or one by one', async () => {
    world.deps.events.record({
      kind: 'boot.decision',
      subject: 'node-1',
      reason: { code: 'boots_profile', text: 'All is there.' },
    });
    expect((await muster('events', 'node-1')).out).toMatch(
      /node-1 +boot\.decision +boots_profile +All is there\./,
    );
    expect(JSON.parse((await muster('events', '-o', 'json', '--tail', '1')).out)).toHaveLength(1);
    expect((await muster('events', '52:54:00:bb:00:77')).err).toBe('No events found.\n');
  });

  it('of a machine are those of its document too, by name and address, also when it is deleted', async () => {
    await muster('machine', 'add', '52:54:00:bb:00:01', '--profile', 'worker', '--name', 'node-5');
    for (const subject of ['node-5', '5254.00bb.0001', 'Machine/node-5'])
      expect((await muster('events', subject)).out).toMatch(/ node-5 +document\.applied/);
    await muster('delete', 'machine/node-5');
    expect((await muster('events', 'node-5')).out).toMatch(
      / node-5 +document\.applied[\s\S]* node-5 +document\.deleted/,
    );
  });
});

describe('the server', () => {
  it('is asked for its status and version', async () => {
    expect((await muster('status')).out).toBe(
      'muster 1.2.3: ready\nall is well: 1 machine\nok   store: open\n',
    );
    world.ready = false;
    expect(await muster('status')).toMatchObject({
      code: 1,
      out: expect.stringContaining('not ready\n1 urgent, 0 that can wait: 1 machine\nWAIT store'),
    });
    expect((await muster('version')).out).toMatch(/^muster [0-9.]+\nserver 1\.2\.3 \(node [0-9.]+\)\n$/);
    expect(await run(['version'], { socket: '/nowhere/s' })).toMatchObject({ code: 0 });
  });

  it('that does not answer is named, with what to do', async () => {
    const { code, out, err } = await run(['get', 'machines', '--socket', '/nowhere/muster.sock']);
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toMatch(/no server answers on \/nowhere\/muster\.sock.*\(E_UNREACHABLE\)\n.*muster serve/);
  });

  it('that is something else is told from ours', async () => {
    const socket = path.join(world.directory, 'other.sock');
    const other = http.createServer((_request, response) => response.writeHead(500).end('oops'));
    await new Promise<void>((resolve) => other.listen(socket, resolve));
    expect((await run(['get', 'machines', '--socket', socket])).err).toContain('is not Muster (status 500)');
    other.close();
  });

  it('reloads on command and shows what is wrong', async () => {
    expect((await muster('reload')).out).toBe('reloaded\n');
    fs.writeFileSync(path.join(world.directory, 'config', 'bad.yaml'), 'kind: X\n');
    expect(await muster('reload')).toMatchObject({ code: 1, err: expect.stringMatching(/bad\.yaml:1:1: /) });
    // Once, with its place.
    expect((await muster('status')).out).toMatch(
      /^muster 1\.2\.3: ready, with reservations\n0 urgent, 1 that can wait: 1 machine\nfault [^\n]*bad\.yaml:1:1: [^\n]*\nok +store: open\n$/,
    );
  });
});

describe('the command line', () => {
  it('helps', async () => {
    expect(await run(['--help'])).toMatchObject({
      code: 0,
      out: expect.stringMatching(/Documents:[\s\S]*validate/),
    });
    expect(await run(['--version'])).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^muster [0-9.]+\n$/),
    });
    expect((await run(['help', 'apply'])).out).toContain('--filename');
    expect((await run(['serve', '--help'])).out).toContain('MUSTER_INTERFACE');
  });

  it('suggests what was meant, and exits with 2', async () => {
    expect(await run(['aply'])).toMatchObject({ code: 2, out: '', err: expect.stringContaining('apply') });
    expect(await run(['get'])).toMatchObject({ code: 2 });
    expect(await run(['get', 'machines', '-o', 'xml'])).toMatchObject({ code: 2 });
  });

  it('gives every verb and option a description', () => {
    const bare: string[] = [];
    const visit = (command: ReturnType<typeof commandTree>, name: string): void => {
      if (!command.description()) bare.push(name);
      for (const option of command.options) if (!option.description) bare.push(`${name} ${option.flags}`);
      for (const child of command.commands) visit(child, `${name} ${child.name()}`);
    };
    visit(commandTree(), 'muster');
    expect(bare).toEqual([]);
  });
});
