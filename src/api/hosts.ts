/** The boot hosts that share a store, as operators see them. */
import { counted } from '../base/counted.ts';
import { plainText } from '../base/plain-text.ts';
import { type FilesSaid, type HostSeen, SILENT_MS } from '../store/etcd/hosts.ts';

/** A clock that is so far off makes certificates and leases of a take-over wrong. */
const SKEW_MS = 2000;

export interface Hosts {
  /** Whether the store is shared. */
  readonly shared: boolean;
  /** This host first. */
  list(): readonly HostSeen[];
  /** The newest revision of the store. */
  revision(): number;
  now(): number;
  /** Identifies the list of files that all hosts should have; undefined when it is not known. */
  wantedFiles(): string | undefined;
  /** An operator removed a file here: the others remove it too, unless it is wanted again. */
  removedFile(sha256: string): void;
  /** Invites a new host; the code that it joins by. Call it only where the store is shared. */
  invite(name: string, sharesCertificate: boolean): string;
  /** Whether it is invited, and its code still counts. */
  invited(name: string): boolean;
  callOff(name: string): void;
  forget(name: string): Promise<boolean>;
  /** Lets another host act; returns before that. */
  handOver(): void;
}

export type HostState = HostSeen['role'] | 'silent';

export const hostState = ({ role, agoMs }: Pick<HostSeen, 'role' | 'agoMs'>): HostState =>
  agoMs >= SILENT_MS ? 'silent' : role;

/** Whether a host would take over. */
export const ready = (one: HostSeen): boolean => hostState(one) === 'standby' && one.revision > 0;

/** What a host lacks of the files of images and artifacts; undefined when it is not known. */
export const filesOf = (one: HostSeen, wanted: string | undefined): FilesSaid | undefined =>
  one.files !== undefined && one.files.of === wanted ? one.files : undefined;

/** A file that this host has → all hosts that have it for certain, this one first. */
export function holders({
  list,
  wantedFiles,
}: Pick<Hosts, 'list' | 'wantedFiles'>): (sha256: string) => readonly string[] {
  const [own, ...others] = list();
  const wanted = wantedFiles();
  const known = others.flatMap((one) => {
    const files = hostState(one) === 'silent' ? undefined : filesOf(one, wanted);
    // It does not tell all of a long list, and then nothing is certain.
    return files !== undefined && files.lacks.length === files.lacking
      ? [{ host: one.host, lacks: new Set(files.lacks) }]
      : [];
  });
  return (sha256) => [
    ...(own ? [own.host] : []),
    ...known.filter(({ lacks }) => !lacks.has(sha256)).map(({ host }) => host),
  ];
}

/** What a host lacks, as a sentence's end; undefined when it lacks nothing. */
function lackText({ lacking, octets, trouble }: FilesSaid): string | undefined {
  if (lacking === 0) return undefined;
  const size = octets > 0 ? ` (${Math.ceil(octets / 2 ** 20)} MiB)` : '';
  return `${counted(lacking, 'file')} of images or artifacts${size}${trouble ? `: ${WHY[trouble.code]}: ${plainText(trouble.text)}` : ''}`;
}

const WHY: Readonly<Record<NonNullable<FilesSaid['trouble']>['code'], string>> = {
  full: 'its disk is full',
  disk: 'its disk cannot be written',
  damaged: 'another host sends a damaged file, so `muster image verify` there',
  unreachable: 'it does not reach another host',
  nowhere: 'no host has it, so add it again',
};

/** The check of `muster status`; undefined for a host whose store is its own. */
export function checkHosts({
  shared,
  list,
  wantedFiles,
}: Pick<Hosts, 'shared' | 'list' | 'wantedFiles'>):
  | { name: string; ok: boolean; detail: string }
  | undefined {
  if (!shared) return undefined;
  const [own, ...others] = list();
  if (own === undefined) return undefined;
  const faults = others.flatMap((one) => {
    if (hostState(one) === 'silent')
      return [
        `${one.host} has not been heard for ${counted(Math.floor(one.agoMs / 60_000) || 1, 'minute')}: start it, or \`muster host forget ${one.host}\``,
      ];
    if (Math.abs(one.skewMs ?? 0) > SKEW_MS)
      return [
        `the clock of ${one.host} is ${Math.abs(one.skewMs! / 1000).toFixed(1)} s ${one.skewMs! > 0 ? 'ahead' : 'behind'}: set it by a time server`,
      ];
    return [];
  });
  const copies: string[] = [];
  const wanted = wantedFiles();
  for (const one of [own, ...others]) {
    if (hostState(one) === 'silent' || one.files === undefined) continue;
    const files = filesOf(one, wanted);
    const lacks = files && lackText(files);
    if (files === undefined && one.files.trouble !== undefined)
      faults.push(
        `${one.host} cannot ask which files it should have: ${plainText(one.files.trouble.text)}; open TCP port ${one.sibling?.port ?? ''} between the boot hosts`,
      );
    else if (files?.trouble !== undefined && lacks !== undefined) faults.push(`${one.host} lacks ${lacks}`);
    else if (lacks !== undefined) copies.push(`${one.host} fetches ${lacks}`);
  }
  const standing = others.filter(ready).map(({ host }) => host);
  const detail = `${own.host} acts; ${standing.length > 0 ? `${standing.join(' and ')} would take over` : 'no other host would take over'}`;
  return { name: 'boot hosts', ok: faults.length === 0, detail: [detail, ...copies, ...faults].join('; ') };
}
