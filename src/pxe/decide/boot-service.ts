/** The boot service: answers the protocol servers from machines and documents. */
import type { ConfigurationOf } from '../../agent/serve/agent-api.ts';
import { duration } from '../../base/duration.ts';
import type { Reason } from '../../events/event.ts';
import type { Rendered } from '../../ignition/rendered.ts';
import type { TicketFacts } from '../../machines/tickets.ts';
import type { Trust } from '../../machines/trust.ts';
import type { ImageSpec, ProfileSpec } from '../../resources/kinds.ts';
import type { BootService } from '../boot.ts';
import type { BootTable } from '../firmware/snippets.ts';
import { type BootDeps, createBootContext } from './boot-context.ts';
import { script } from './boot-script.ts';
import { bootTable } from './boot-table.ts';
import { chosenDataDisk, disksFor } from './data-disk.ts';
import { answer, isStranger } from './dhcp-answer.ts';
import { type ExplainQuestion, type Explanation, explain, renderPreview } from './explain.ts';
import { inline } from './inline.ts';
import { createInstalls } from './install.ts';
import {
  config,
  configurationFiles,
  failSilent,
  isAt,
  report,
  takeConsole,
  ticketed,
} from './machine-reports.ts';
import { missingFiles, outlook, wantedImage } from './outlook.ts';
import { rescueOrder } from './rescuing.ts';
import { selectionOf } from './selection.ts';
import { testOrder, testReport } from './testing.ts';
import { machineTrust } from './trust.ts';
import { discoveryAnswer, reportsBucket, takeInventory } from './waiting.ts';
import { wipeOrder, wipeReport } from './wiping.ts';

export type { BootDeps } from './boot-context.ts';

/** Interval at which expired sessions and silent machines are handled. Both wait in queues. */
const TICK = duration('1s');

export interface RunningBootService extends BootService {
  /** Handles machines that fell silent and sessions that are too old. Called by a timer. */
  tick(): void;
  /**
   * What a machine would get now, and why.
   *
   * @throws {MusterError} E_NOT_FOUND for an unknown machine or network, E_USAGE when the question
   * names neither a machine nor an address, or a firmware that the architecture does not have.
   */
  explain(question: ExplainQuestion): Explanation;
  /** What another DHCP server has to say to machines of a network; see {@link bootTable}. */
  bootTable(network: string): BootTable;
  /** The first configuration of a machine's boot session; see {@link configurationFiles}. */
  configurationFiles: ConfigurationOf;
  /** What a ticket of this boot session permits; undefined when there is no such session. */
  ticketed(session: string): TicketFacts | undefined;
  /** See {@link isAt}. */
  isAt(machine: string, address: string): boolean;
  /**
   * The configuration that a machine would get now.
   *
   * @throws {MusterError} E_NOT_FOUND, E_REFERENCE without profile or image, E_CONFIG when it does
   * not render.
   */
  render(machine: string): Rendered;
  /** Why a machine would be held if it booted now, for lists; see {@link outlook}. */
  outlook(machine: string): Reason | undefined;
  /** The image that a machine would boot; see {@link wantedImage}. */
  wantedImage(machine: string): ReturnType<typeof wantedImage>;
  /** The tier of trust that counts for a machine; see {@link machineTrust}. */
  trust(machine: string): Trust | undefined;
  /** The hashes of an image's files that are not here. */
  missingFiles(image: ImageSpec): readonly string[];
  /** Whether documents want a disk of a machine encrypted with a key of the boot host. */
  keepsDataKey(machine: string): boolean;
  /** Where the profile that a machine gets has its system; undefined: not said. */
  homeOf(machine: string): ProfileSpec['home'];
  /** Why the data disk of a machine cannot be chosen from its inventory; undefined when it can. */
  undecidedDisk(machine: string): string | undefined;
  /** Stops the timer, and no longer follows the documents. */
  close(): void;
}

/** Starts the boot service. It answers until `close`. */
export function createBootService(deps: BootDeps): RunningBootService {
  const context = createBootContext(deps);
  const reports = reportsBucket();
  const installs = createInstalls(context);
  let stop: () => void = () => {};
  const tick = (): void => {
    failSilent(context);
    context.roster.sweep();
  };
  const schedule = (): void => {
    stop = deps.clock.after(TICK, () => {
      tick();
      schedule();
    });
  };
  schedule();
  /** The disks that the documents give a machine with the profile that is selected now. */
  const disksNow = (machine: string) => {
    const member = context.roster.get(machine);
    if (member === undefined) return undefined;
    return disksFor(context, member, selectionOf(context, member, member.status.seen.network));
  };
  return {
    answer: (client, network, step) => answer(context, client, network, step),
    isStranger: (client) => isStranger(context, client),
    reservedFor: (address) => context.roster.byAddress(address)?.name,
    withoutReservation: (network) => context.withoutReservation(network),
    script: (request) => script(context, request),
    config: (session, file, asked) => config(context, session, file, asked),
    inline: (session, file, asked) => inline(context, session, file, asked),
    report: (session, given, peer) => report(context, session, given, peer),
    waits: (session) => discoveryAnswer(context, session),
    install: (session, asked) => installs.say(session, asked),
    installList: (session, asked) => installs.list(session, asked),
    installExtent: (session, at, asked) => installs.extent(session, at, asked),
    inventory: (id, text, peer) => takeInventory(context, reports, { id, text, peer }),
    wipeOrder: (session, peer) => wipeOrder(context, session, peer),
    wipeReport: (session, text, peer) => wipeReport(context, { id: session, text, peer }),
    testOrder: (session, peer) => testOrder(context, session, peer),
    testReport: (session, text, peer) => testReport(context, { id: session, text, peer }),
    rescue: (session, text, peer) => rescueOrder(context, { id: session, text, peer }),
    console: (session, form, peer) => takeConsole(context, session, form, peer),
    configurationFiles: (machine, session, baseUrl) =>
      configurationFiles(context, { machine, session, baseUrl }),
    ticketed: (session) => ticketed(context, session),
    isAt: (machine, address) => isAt(context, machine, address),
    explain: (question) => explain(context, question),
    bootTable: (network) => bootTable(context, network),
    needs: (sha256) => context.needed().has(sha256),
    render: (machine) => renderPreview(context, machine),
    outlook: (machine) => outlook(context, machine),
    wantedImage: (machine) => wantedImage(context, machine),
    trust(machine) {
      const member = context.roster.get(machine);
      return member && machineTrust(context, member);
    },
    missingFiles: (image) => missingFiles(context, image),
    keepsDataKey(machine) {
      const { data, etcd } = disksNow(machine) ?? {};
      return data?.encrypt === 'boot-host' || etcd?.encrypt === 'boot-host';
    },
    homeOf(machine) {
      const member = context.roster.get(machine);
      const found = member && selectionOf(context, member, member.status.seen.network);
      return found?.kind === 'selected' ? found.profile.spec.home : undefined;
    },
    undecidedDisk(machine) {
      const disks = disksNow(machine);
      const found = disks && chosenDataDisk(context, machine, disks);
      return found === undefined || found.ok ? undefined : found.text;
    },
    tick,
    close() {
      stop();
      context.close();
    },
  };
}
