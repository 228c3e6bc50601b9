import { describe, expect, it } from 'vitest';
import { commandTree } from '../../../scripts/command-tree.ts';
import { complete, type List } from '../../../src/cli/completion/complete.ts';
import { openWorld } from '../api/world.ts';
import { run } from './run.ts';

const program = commandTree();

const NAMES: Readonly<Record<List, readonly string[]>> = {
  machines: ['node-1', 'node-2'],
  clusters: ['blue'],
  profiles: ['worker'],
  images: ['debian-13'],
  networks: ['lan'],
  artifacts: ['binary/kubelet/1.36.2/x86_64'],
};

/**
 * What would be offered for the last word of a command line; a space at the end begins a new one.
 */
const offered = (line: string) => complete(line.split(' '), program, async (list) => NAMES[list]);

describe('completion offers', () => {
  it.for([
    ['va', ['validate', 'version'].slice(0, 1)],
    [
      'machine ',
      [
        'accept',
        'add',
        'approve',
        'boot',
        'bring-back',
        'call-off',
        'console',
        'data-keys',
        'identify',
        'install',
        'life',
        'quarantine',
        'rearm',
        'release',
        'replace',
        'rescue',
        'retire',
        'take-out',
        'test',
        'timeline',
        'waiting',
        'wipe',
        'wipes',
      ],
    ],
    ['machine add --pro', ['--profile']],
    ['machine add --fi', []],
    ['machine add --profile ', ['worker']],
    ['machine add --profile=', []],
    ['machine add --profile = w', ['worker']],
    ['machine add --cluster b', ['blue']],
    ['machine rearm ', ['node-1', 'node-2']],
    ['machine accept node-1 --profile ', ['worker']],
    ['get machines -o ', ['ansible', 'csv', 'hosts', 'json', 'name', 'ssh-config', 'table', 'wide', 'yaml']],
    ['get pro', ['profiles']],
    ['get machines node-', ['node-1', 'node-2']],
    ['get m ', ['node-1', 'node-2']],
    ['get machine/no', ['machine/node-1', 'machine/node-2']],
    ['explain node-1 --firmware b', ['bios']],
    ['explain node-1 --arch a', ['aarch64', 'amd64', 'arm64']],
    ['explain --network ', ['lan']],
    ['render node-', ['node-1', 'node-2']],
    ['events ', ['cluster/blue', 'node-1', 'node-2']],
    ['cluster status ', ['blue']],
    ['cluster verify ', ['blue']],
    ['cluster plan ', ['node-1', 'node-2']],
    ['cluster remove-node ', ['blue']],
    ['cluster remove-node blue ', ['node-1', 'node-2']],
    ['cluster remove-node blue node-1 ', ['node-1', 'node-2']],
    ['kubeconfig ', ['blue']],
    ['artifacts plan ', ['blue']],
    ['artifacts pull ', ['blue']],
    ['artifacts rm b', ['binary/kubelet/1.36.2/x86_64']],
    ['image build ', ['debian', 'discovery', 'probe']],
    ['image rm ', ['debian-13']],
    ['completion ', ['bash', 'fish', 'zsh']],
    ['help cluster rem', ['remove-node']],
    ['serve --log-', ['--log-level']],
  ] as const)('after "%s": %s', async ([line, words]) => {
    expect(await offered(line)).toEqual(words);
  });

  it.for(['apply -f ', 'validate ', 'artifacts import ', 'explain --packet ', 'cluster etcd-client blue '])(
    'names of files after "%s"',
    async (line) => {
      expect(await offered(line)).toBe('file');
    },
  );

  it('names before flags: flags only once a dash is typed, or where nothing else fits', async () => {
    expect(await offered('render ')).not.toContain('--file');
    expect(await offered('render -')).toContain('--file');
    expect(await offered('render node-1 ')).toContain('--file');
    expect(await offered('status ')).toContain('--output');
  });

  it('no command that is hidden', async () => {
    expect(await offered('')).toEqual(expect.arrayContaining(['apply', 'get', 'machine', 'serve']));
    expect(await offered('__')).toEqual([]);
    expect((await run(['--help'])).out).not.toContain('__complete');
  });
});

describe('the command behind the shells', () => {
  it('prints a candidate a line, with the names that the server has', async () => {
    const world = await openWorld();
    const { out } = await run(['__complete', '--', 'get', 'machines', ''], { socket: world.socket });
    expect(out).toBe('node-1\n');
    await world.close();
  });

  it('offers what it knows when no server answers', async () => {
    const socket = '/nowhere/s';
    expect(await run(['__complete', '--', 'get', 'machines', ''], { socket })).toEqual({
      code: 0,
      out: '',
      err: '',
    });
    expect((await run(['__complete', '--', 'apply', '-f', ''], { socket })).out).toBe(':file\n');
  });
});
