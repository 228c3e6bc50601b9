/**
 * Gives the discovery system to an unknown machine, where its Network asks for it. waiting.ts
 * answers what the machine asks from there.
 */
import { timeToTell } from '../../base/clock.ts';
import { plainAddress } from '../../base/ip.ts';
import type { Member } from '../../machines/roster.ts';
import type { LiveSession } from '../../machines/sessions.ts';
import type { ImageSpec } from '../../resources/kinds.ts';
import type { ScriptAnswer, ScriptRequest } from '../boot.ts';
import type { ServedNetwork } from '../network.ts';
import { writerFor } from '../script/writers.ts';
import type { BootContext } from './boot-context.ts';
import { judge, type Readiness, unknownOn, type Verdict } from './decide.ts';
import { imageState } from './image-state.ts';

/** What a machine without a document gets on a network. */
export function verdictOnUnknown(
  context: Pick<BootContext, 'catalog' | 'assets' | 'roster'>,
  network: ServedNetwork | undefined,
  { arch, serial }: { readonly arch?: Readiness['arch']; readonly serial?: string | undefined },
  bootsWithoutWord?: number,
): Verdict {
  const serialOf = context.roster.withSerial(serial);
  const unknown = { ...unknownOn(network, bootsWithoutWord), serialOf };
  const { discovery } = unknown;
  return judge(unknown, discovery === undefined ? {} : { arch, image: imageState(context, discovery) });
}

/** Gives an unknown machine the discovery system. Counts no boot of the machine. */
export function giveDiscovery(
  context: BootContext,
  live: LiveSession,
  member: Member,
  request: ScriptRequest,
  verdict: Extract<Verdict, { kind: 'discovery' }>,
): ScriptAnswer {
  const { roster, events, catalog } = context;
  const { sessions } = roster;
  const first = live.session.discovery !== true;
  sessions.discover(live);
  sessions.set(live, {
    image: verdict.image,
    network: request.network?.name ?? '',
    peer: plainAddress(request.peer),
  });
  sessions.mark(live, 'script');
  roster.saveLater(live);
  if (first)
    roster.change(member, {
      session: live.session.id,
      reason: verdict.reason,
      bootsWithoutReady: member.status.bootsWithoutReady + 1,
    });
  events.record({
    kind: 'boot.discovery',
    subject: member.name,
    session: live.session.id,
    ...(request.network ? { network: request.network.name } : {}),
    reason: verdict.reason,
    fields: { image: verdict.image },
  });
  const image = catalog.get('Image', verdict.image)!.document.spec;
  return { decision: verdict, session: live.session, script: textOf(context, live, request, verdict, image) };
}

function textOf(
  { clock }: Pick<BootContext, 'clock'>,
  live: LiveSession,
  { baseUrl, loader }: ScriptRequest,
  verdict: Extract<Verdict, { kind: 'discovery' }>,
  image: ImageSpec,
): string {
  return writerFor(loader).boot({
    baseUrl,
    mac: live.session.mac,
    session: live.session.id,
    machine: live.session.machine,
    image: verdict.image,
    kernel: image.kernel,
    initrds: image.initrds ?? [],
    root: image.root,
    kernelArguments: image.kernelArguments ?? [],
    time: timeToTell(clock),
  });
}
