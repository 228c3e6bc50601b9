/**
 * Answers machines that are tested, in the discovery system: what they test, and what becomes of
 * their reports. Only the machine's own address in its own session is believed.
 */
import { readMeasures, type TestReport, testFaults } from '../../machines/life/burn-in.ts';
import { testText } from '../../machines/life/burn-in-order.ts';
import { KEYS } from '../../store/keys.ts';
import { isDiskImage } from '../assets/assets.ts';
import type { WipeOrderAnswer, WipeReportAnswer } from '../boot.ts';
import type { BootContext } from './boot-context.ts';
import { begins, orderedIn } from './wiping.ts';

/** What a machine tests. */
export async function testOrder(context: BootContext, id: string, peer: string): Promise<WipeOrderAnswer> {
  const found = orderedIn(context, id, peer, 'testing');
  const test = found?.life.test;
  const image = context.catalog.get('Image', found?.live.session.image ?? '')?.document.spec;
  if (found === undefined || test === undefined || image === undefined || isDiskImage(image))
    return 'refused';
  await begins(context, found, test.begun !== true && { test: { ...test, begun: true } });
  return { text: testText(test, `/assets/${image.kernel.sha256}/kernel`) };
}

/** Judges what a machine measured, and keeps that. Then it is taken out, as before. */
export async function testReport(
  context: BootContext,
  { id, text, peer }: { readonly id: string; readonly text: string; readonly peer: string },
): Promise<WipeReportAnswer> {
  const found = orderedIn(context, id, peer, 'testing');
  if (found?.life.test?.begun !== true) return 'refused';
  const measures = readMeasures(text);
  if (measures === undefined) return 'unreadable';
  const { live, member, life } = found;
  const { test, ...rest } = life;
  const faults = testFaults(measures);
  const { serial, product } = member.status.seen;
  const { refused: _, ...measured } = measures;
  const report: TestReport = {
    ...{ v: 1, id: test!.id, machine: member.name, reason: life.text, by: life.by },
    ...(serial !== undefined && { serial }),
    ...(product !== undefined && { product }),
    ...{ orderedAt: life.at, at: context.clock.now(), seconds: test!.seconds, faults: [...faults] },
    ...measured,
  };
  const why = faults.length === 0 ? 'It passed its test' : `It failed its test: ${faults.join('; ')}`;
  context.roster.change(member, {
    life: { ...rest, state: 'taken-out', at: context.clock.now(), text: `${why}. ${life.text}` },
  });
  const put = { key: KEYS.test.key(member.name, report.id), put: JSON.stringify(report) };
  await context.roster.commit([member], [live], [put]);
  context.events.record({
    kind: 'machine.life',
    subject: member.name,
    session: live.session.id,
    reason: { code: faults.length === 0 ? 'test-passed' : 'test-failed', text: why },
    fields: { by: life.by },
  });
  return 'kept';
}
