/**
 * What Muster reads from Redfish resources (DMTF DSP0266 and its schemas), and what it sends. Pure.
 * Every value is foreign: it is read by its type, and shortened.
 */
import { fieldsOf, listOf, textOf } from '../../base/foreign-json.ts';
import type { BootOnce, BootTarget, PowerOrder, PowerState } from '../bmc.ts';
import type { QuirkCode } from '../quirks.ts';

/** A resource as it was answered, with the tag that a change of it has to show. */
export interface Resource {
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly etag?: string | undefined;
}

const STATES: Readonly<Record<string, PowerState>> = { On: 'on', Off: 'off', Paused: 'paused' };

/** `PowerState` of a system. What is between on and off is neither. */
export function powerIn({ body }: Resource): PowerState {
  const state = textOf(body.PowerState);
  return Object.hasOwn(STATES, state) ? STATES[state]! : 'unknown';
}

/** Kinds of reset that carry out an order, the better first. */
const RESETS: Readonly<Record<PowerOrder, readonly string[]>> = {
  on: ['On', 'ForceOn', 'PushPowerButton'],
  off: ['ForceOff'],
  'shut-down': ['GracefulShutdown'],
  cycle: ['PowerCycle', 'ForceRestart'],
  reset: ['ForceRestart', 'PowerCycle'],
};

/** Where and how a system is reset. */
export interface Reset {
  readonly path: string;
  readonly type: string;
}

/** The kinds of reset that a system allows by its own words; undefined: it does not say. */
function allowedIn(action: Readonly<Record<string, unknown>>): readonly string[] | undefined {
  const values = listOf(action['ResetType@Redfish.AllowableValues']).map(textOf).filter(Boolean);
  return values.length > 0 ? values : undefined;
}

/** How an order is carried out; undefined where the system allows no kind that does it. */
export function resetFor({ body }: Resource, order: PowerOrder): Reset | undefined {
  const action = fieldsOf(fieldsOf(body.Actions)['#ComputerSystem.Reset']);
  const path = textOf(action.target);
  if (!isOwnPath(path)) return undefined;
  const allowed = allowedIn(action);
  const type = RESETS[order].find((one) => allowed === undefined || allowed.includes(one));
  return type === undefined ? undefined : { path, type };
}

const TARGETS: Readonly<Record<BootTarget, readonly string[]>> = {
  none: ['None'],
  network: ['Pxe', 'UefiHttp'],
  http: ['UefiHttp'],
  disk: ['Hdd'],
  setup: ['BiosSetup'],
};

/** What the system says of its next boot. */
export function bootIn({ body }: Resource): BootOnce {
  const boot = fieldsOf(body.Boot);
  const enabled = textOf(boot.BootSourceOverrideEnabled);
  const said = textOf(boot.BootSourceOverrideTarget) || 'None';
  const known = (Object.keys(TARGETS) as BootTarget[]).find((target) => TARGETS[target][0] === said);
  return {
    target: enabled === 'Once' || enabled === 'Continuous' ? (known ?? 'other') : 'none',
    uefi: boot.BootSourceOverrideMode === undefined ? undefined : boot.BootSourceOverrideMode === 'UEFI',
    persistent: enabled === 'Continuous',
  };
}

/**
 * The change that makes the next boot one from `target`: target, enabled and mode in one request,
 * because BMCs keep the old mode with a target alone, and then boot nothing.
 */
export function bootChange(
  { body }: Resource,
  target: BootTarget,
  { uefi }: { readonly uefi: boolean },
  quirks: ReadonlySet<QuirkCode> = new Set(),
): Readonly<Record<string, unknown>> {
  const boot = fieldsOf(body.Boot);
  if (target === 'none') return { Boot: { BootSourceOverrideEnabled: 'Disabled' } };
  const allowed = listOf(boot['BootSourceOverrideTarget@Redfish.AllowableValues'])
    .map(textOf)
    .filter(Boolean);
  const word =
    TARGETS[target].find((one) => allowed.length === 0 || allowed.includes(one)) ?? TARGETS[target][0];
  const mode = uefi ? 'UEFI' : 'Legacy';
  return {
    Boot: {
      BootSourceOverrideTarget: word,
      BootSourceOverrideEnabled: 'Once',
      // A system that does not show the mode refuses it.
      ...(boot.BootSourceOverrideMode !== undefined &&
        !(quirks.has('mode-together') && boot.BootSourceOverrideMode === mode) && {
          BootSourceOverrideMode: mode,
        }),
    },
  };
}

/** Where changes of a resource go that count at its next start, if it has such a place. */
export function settingsOf({ body, path }: Resource, quirks: ReadonlySet<QuirkCode> = new Set()): string {
  const settings = textOf(fieldsOf(fieldsOf(body['@Redfish.Settings']).SettingsObject)['@odata.id']);
  if (isOwnPath(settings)) return settings;
  return quirks.has('settings-below-sd') ? `${path.replace(/\/$/, '')}/SD` : path;
}

/** Whether a path stays on the BMC that was asked: a link to another host is none. */
export const isOwnPath = (path: string): boolean => /^\/redfish\/v1(?:\/[\w.~@:%()=,-]+)*\/?$/.test(path);

/** The vendor of a system, as it says. */
export const vendorIn = ({ body }: Resource): string => textOf(body.Manufacturer).slice(0, 64);

/** The members of a collection, at most so many. */
export const membersOf = ({ body }: Resource, most = 64): readonly string[] =>
  listOf(body.Members)
    .slice(0, most)
    .map((one) => textOf(fieldsOf(one)['@odata.id']))
    .filter(isOwnPath);

/** The text of a Redfish error, for people. */
export function errorIn(body: unknown): string {
  const error = fieldsOf(fieldsOf(body).error);
  const [first] = listOf(error['@Message.ExtendedInfo']).map(fieldsOf);
  return (textOf(first?.Message) || textOf(error.message)).slice(0, 300);
}

/** The code of a Redfish error, such as `SessionLimitExceeded`. */
export function errorCodeIn(body: unknown): string {
  const error = fieldsOf(fieldsOf(body).error);
  const [first] = listOf(error['@Message.ExtendedInfo']).map(fieldsOf);
  return (textOf(first?.MessageId) || textOf(error.code)).split('.').at(-1)!.slice(0, 60);
}
