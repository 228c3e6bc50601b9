/**
 * Writes a control plane's plan below a directory and runs its static pods as their manifests say,
 * with the binaries of MUSTER_ARTIFACTS.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { load } from 'js-yaml';
import type { Plan } from '../../src/agent/wire/plan.ts';
import { ARTIFACTS } from '../artifacts.ts';
import type { TestMachine } from '../unit/cluster/planner-kit.ts';
import { placePair } from './placed-pair.ts';

export class PlacedPlan {
  readonly bin = path.join(ARTIFACTS ?? '', 'bin');
  readonly root = ARTIFACTS === undefined ? '' : fs.mkdtempSync(path.join(os.tmpdir(), 'muster-kubernetes-'));
  readonly env = { ...process.env, PATH: `${this.bin}:${process.env.PATH}` };
  readonly #running = new Map<string, ChildProcess>();

  inside(file: string): string {
    return path.join(this.root, file);
  }

  /** A text of the plan with the root in front of its paths. */
  #placed(text: string): string {
    return text.replace(/(?<![\w.])\/(etc|var|run)\/(?!ssl)/g, `${this.root}/$1/`);
  }

  put(plan: Plan, machine: TestMachine): void {
    for (const line of plan.lines) {
      if (line.do === 'link') {
        fs.mkdirSync(path.dirname(this.inside(line.path)), { recursive: true });
        fs.rmSync(this.inside(line.path), { force: true });
        fs.symlinkSync(this.inside(line.to), this.inside(line.path));
      }
      if (line.do === 'put-pair') placePair(this.root, line, machine);
      if ((line.do !== 'put' && line.do !== 'put-with-key') || !('text' in line.content)) continue;
      const key = line.do === 'put-with-key' ? machine.keys.get(line.leaf)!.pem() : '';
      const appended =
        line.do === 'put-with-key' && line.append === 'base64'
          ? `${Buffer.from(key).toString('base64')}\n`
          : key;
      fs.mkdirSync(path.dirname(this.inside(line.path)), { recursive: true });
      fs.writeFileSync(this.inside(line.path), this.#placed(line.content.text) + appended, {
        mode: line.mode,
      });
    }
  }

  /** Runs the program of a static pod. */
  start(pod: string): void {
    const text = fs.readFileSync(this.inside(`/etc/kubernetes/manifests/${pod}.yaml`), 'utf8');
    // biome-ignore lint/suspicious/noExplicitAny: a manifest as its reader sees it
    const manifest = load(text) as any;
    const [program, ...flags] = manifest.spec.containers[0].command as string[];
    // Output goes to a file, because a full pipe that nobody reads would block the program.
    const log = fs.openSync(this.inside(`/${pod}.log`), 'a');
    const child = spawn(path.join(this.bin, program!), flags, {
      env: this.env,
      stdio: ['ignore', log, log],
    });
    fs.closeSync(log);
    this.#running.set(pod, child);
  }

  async stop(pod: string, signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    const child = this.#running.get(pod);
    this.#running.delete(pod);
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await ended;
  }

  run(program: string, ...args: readonly string[]): string {
    return execFileSync(path.join(this.bin, program), args, {
      env: this.env,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
    });
  }

  async close(): Promise<void> {
    for (const pod of [...this.#running.keys()]) await this.stop(pod, 'SIGKILL');
    fs.rmSync(this.root, { recursive: true, force: true });
  }
}
