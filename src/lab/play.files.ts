/** Runs a scenario's steps one after the other on an open rack. */
import { setTimeout } from 'node:timers/promises';
import type { Clusters } from './clusters.ts';
import { type Verdict, verdictOf } from './expectations.ts';
import { type BootHost, documentsText } from './muster.files.ts';
import type { Output } from './process.files.ts';
import type { Rack } from './rack.files.ts';
import type { Scenario } from './scenario.ts';
import { etcdText, type Step, spanOf, waitText } from './steps.ts';

interface Stage {
  readonly rack: Rack;
  readonly host: BootHost;
  readonly clusters: Clusters;
  /** Prints progress. */
  readonly say: (text: string) => void;
  readonly signal: AbortSignal;
}

/** The first and the longest pause between two tries of a command. */
const FIRST_PAUSE_MS = 2000;
const LONGEST_PAUSE_MS = 10_000;

/**
 * Runs the steps, and resolves with a verdict for each step that is judged. The first failure ends
 * the scenario.
 */
export async function play(scenario: Scenario, stage: Stage): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  for (const step of scenario.steps) {
    const verdict = await take(step, stage);
    if (verdict === undefined) continue;
    verdicts.push(verdict);
    if (verdict.ok) continue;
    stage.say(`FAIL  ${verdict.text}: ${verdict.detail}\n`);
    break;
  }
  return verdicts;
}

/** Runs one step; resolves with a verdict when the step is judged, otherwise with undefined. */
async function take(step: Step, stage: Stage): Promise<Verdict | undefined> {
  const { rack, clusters, host } = stage;
  if (step.powerOn) rack.powerOn(step.powerOn);
  else if (step.powerOff) await rack.powerOff(step.powerOff);
  else if (step.powerCut) {
    clusters.noteCut();
    await rack.powerCut(step.powerCut);
  } else if (step.hang) {
    clusters.noteCut();
    rack.hang(step.hang);
  } else if (step.wipe) await rack.wipe(step.wipe);
  else if (step.newTpm) await rack.newTpm(step.newTpm);
  else if (step.bootHost === 'off') await host.stop();
  else if (step.bootHost === 'on') await host.restart();
  else if (step.pause) await sleep(spanOf(step.pause), stage.signal);
  else if (step.startWriting) clusters.startWriting(step.startWriting);
  else if (step.stopWriting) await clusters.stopWriting(step.stopWriting);
  else if (step.check) return verdictOf(step.check, rack.observed.get(step.check.machine)!);
  else if (step.wait) {
    const fault = await rack.wait(step.wait);
    return fault === undefined ? undefined : failed(`comes: ${waitText(step.wait)}`, fault, stage);
  } else if (step.etcd) return await etcdVerdict(step.etcd, stage);
  else return await commandVerdict(step, stage);
  return undefined;
}

const failed = (text: string, fault: string, { host }: Stage): Verdict => ({
  text,
  ok: false,
  detail: host.crashed ? `muster serve has ended; ${fault}` : fault,
});

async function etcdVerdict(state: NonNullable<Step['etcd']>, stage: Stage): Promise<Verdict> {
  const { rack, clusters, say } = stage;
  const text = etcdText(state);
  const fault = await clusters.wait(state, () => rack.stalled());
  if (fault !== undefined) return failed(`comes: ${text}`, fault, stage);
  const detail = `after ${rack.seconds().toFixed(1)} s; ${clusters.writes(state.cluster)} writes acknowledged by then`;
  say(`          ${text}: ${detail}\n`);
  return { text, ok: true, detail };
}

/**
 * Runs an operator's command and checks its output and exit code; repeats this until they are right
 * or the time `within` is over.
 */
async function commandVerdict(step: Step, { rack, host, say, signal }: Stage): Promise<Verdict> {
  const words = step.muster ?? ['apply', '-f', '-'];
  const text = step.shell ?? `muster ${words.join(' ')}`;
  const run = (): Promise<Output> =>
    step.shell === undefined
      ? host.muster(words, step.apply && { input: documentsText(step.apply) })
      : host.shell(step.shell);
  const deadline = Date.now() + (step.within === undefined ? 0 : spanOf(step.within));
  // The pauses grow, because each try slows down the machine that is usually still starting.
  for (let wait = FIRST_PAUSE_MS; ; wait = Math.min(2 * wait, LONGEST_PAUSE_MS)) {
    const output = await run();
    const fault = faultOf(step, output);
    if (fault !== undefined && Date.now() < deadline && !signal.aborted) {
      await sleep(wait, signal);
      continue;
    }
    const said = `after ${rack.seconds().toFixed(1)} s: ${`${output.out}${output.err}`.trim()}`;
    say(`          ${text}: ${said}\n`);
    return { text, ok: fault === undefined, detail: fault ?? said };
  }
}

function faultOf({ says, exitCode = 0 }: Step, { code, out, err }: Output): string | undefined {
  const said = `${out}${err}`.trim();
  if (code !== exitCode) return `exit code ${code}: ${said}`;
  return says === undefined || new RegExp(says).test(said) ? undefined : `it does not say /${says}/: ${said}`;
}

/** Resolves early when `signal` aborts. */
const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  setTimeout(ms, undefined, { signal }).catch(() => undefined);
