/** What a simulated BMC answers by Redfish (DMTF DSP0266): a request becomes an answer. */
import { createHash, randomBytes } from 'node:crypto';
import { fieldsOf, parsed, textOf } from '../../base/foreign-json.ts';
import type { PowerOrder } from '../../bmc/bmc.ts';
import { type Account, type Controller, SENSORS } from './controller.ts';
import { merged, type Topic } from './faults.ts';
import {
  at,
  type Body,
  collection,
  done,
  failure,
  head,
  MISSING,
  ok,
  type RedfishAnswer,
} from './resources.ts';
import type { WebCertificate } from './web-certificate.ts';

export interface RedfishRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: string;
}

const ROOT = '/redfish/v1';
const SYSTEM = `${ROOT}/Systems/1`;
const RESET = `${SYSTEM}/Actions/ComputerSystem.Reset`;
const SESSIONS = `${ROOT}/SessionService/Sessions`;
const ACCOUNTS = `${ROOT}/AccountService/Accounts`;
const CHASSIS = `${ROOT}/Chassis/1`;
const MANAGER = `${ROOT}/Managers/1`;
const LOG = `${SYSTEM}/LogServices/Log`;
/** A session that nobody uses is forgotten after this. */
const IDLE_MS = 600_000;

const RESETS: Readonly<Record<string, PowerOrder>> = {
  On: 'on',
  ForceOff: 'off',
  GracefulShutdown: 'shut-down',
  ForceRestart: 'reset',
  PowerCycle: 'cycle',
};
const TARGETS = {
  ...{ none: 'None', network: 'Pxe', http: 'UefiHttp' },
  ...{ disk: 'Hdd', setup: 'BiosSetup' },
} as const;
type Target = keyof typeof TARGETS;

interface Session {
  readonly id: string;
  readonly token: string;
  readonly user: string;
  usedAt: number;
}

/** Where the console is by a websocket: as of OpenBMC (obmc_console.hpp), or as the system says. */
export const CONSOLES = { openbmc: '/console0', named: '/console/default?system=1' } as const;

/** What a request is about, for the rules of faults. */
export function topicOf({ method, path, body }: RedfishRequest): Topic {
  if (method === 'POST' && path === SESSIONS) return 'login';
  if (method === 'POST' && path === RESET) return 'power';
  if (method === 'PATCH' && path === SYSTEM) return 'Boot' in fieldsOf(parsed(body)) ? 'boot' : 'identify';
  if (method !== 'GET' && path.startsWith(ACCOUNTS)) return 'password';
  if (method === 'POST' && path.startsWith(`${ROOT}/CertificateService/`)) return 'certificate';
  return method === 'GET' ? 'read' : 'other';
}

/** The sessions of one BMC, and its answers. */
export class RedfishService {
  readonly #controller: Controller;
  readonly #sessions = new Map<string, Session>();
  readonly #certificate: WebCertificate;
  #count = 0;

  constructor(controller: Controller, certificate: WebCertificate) {
    this.#controller = controller;
    this.#certificate = certificate;
  }

  /** Answers a request under the rules of faults for the content of answers. */
  answer(
    request: RedfishRequest,
  ): RedfishAnswer & { readonly rule?: ReturnType<Controller['faults']['of']> } {
    const path = request.path.split('?')[0]!.replace(/(.)\/$/, '$1');
    const asked = { ...request, path };
    const rule = this.#controller.faults.of(topicOf(asked), `${request.method} ${path}`);
    if (rule?.answer !== undefined)
      return { ...failure(rule.answer, rule.code ?? 'GeneralError', 'It does not want to.'), rule };
    if (rule?.acknowledged) return { ...done, rule };
    const answer = this.#checked(asked);
    if (!rule) return answer;
    const isBody = rule.patch !== undefined && answer.body !== undefined;
    return { ...answer, ...(isBody && { body: merged(answer.body, rule.patch) }), rule };
  }

  /** Whether whoever asks may use the console, and has its path. */
  opensConsole(request: RedfishRequest): boolean {
    const { console } = this.#controller.traits;
    const isThere = console !== undefined && request.path === CONSOLES[console];
    return isThere && (this.#account(request)?.privilege ?? 0) >= 3;
  }

  /** Answers whoever is logged in; the service root and logging in need nobody. */
  #checked(request: RedfishRequest): RedfishAnswer {
    const { method, path } = request;
    if (method === 'GET' && path === '/redfish') return ok({ v1: `${ROOT}/` });
    if (method === 'GET' && path === ROOT) return ok(this.#root());
    if (method === 'POST' && (path === SESSIONS || path === `${SESSIONS}/Members`))
      return this.#logIn(request);
    const account = this.#account(request);
    if (!account) return failure(401, 'NoValidSession', 'There is no valid session.');
    const resource = method === 'GET' ? this.#read(path) : undefined;
    if (resource) return ok(resource, path === SYSTEM ? { etag: this.#tag() } : {});
    if (method === 'GET' || method === 'HEAD') return MISSING;
    if (account.privilege < 3) return failure(403, 'InsufficientPrivilege', 'The account may not do this.');
    return this.#change(request);
  }

  #account({ headers }: RedfishRequest): Account | undefined {
    const { accounts } = this.#controller;
    const session = this.#sessions.get(textOf(headers['x-auth-token']));
    if (session) {
      session.usedAt = this.#controller.now();
      return accounts.find((one) => one.enabled && one.name === session.user);
    }
    const [, basic] = /^Basic (\S+)$/i.exec(textOf(headers.authorization)) ?? [];
    if (basic === undefined) return undefined;
    const [, name, password] = /^([^:]*):(.*)$/s.exec(Buffer.from(basic, 'base64').toString('utf8')) ?? [];
    return this.#controller.logsIn(name ?? '', password ?? '');
  }

  #logIn({ body }: RedfishRequest): RedfishAnswer {
    const { UserName, Password } = fieldsOf(parsed(body));
    const account = this.#controller.logsIn(textOf(UserName), textOf(Password));
    if (!account) return failure(401, 'ResourceAtUriUnauthorized', 'The name or the password is wrong.');
    const now = this.#controller.now();
    for (const [token, one] of this.#sessions) if (now - one.usedAt > IDLE_MS) this.#sessions.delete(token);
    if (this.#sessions.size >= this.#controller.traits.sessions)
      return failure(503, 'SessionLimitExceeded', 'There are too many sessions.');
    const session = { id: String(++this.#count), token: randomBytes(16).toString('hex'), user: account.name };
    this.#sessions.set(session.token, { ...session, usedAt: now });
    const path = `${SESSIONS}/${session.id}`;
    return {
      status: 201,
      headers: { 'x-auth-token': session.token, location: path },
      body: { ...head(path, 'Session.v1_3_0.Session', 'Session'), UserName: account.name },
    };
  }

  #tag(): string {
    const { version, lit } = this.#controller;
    return `W/"${createHash('sha256').update(`${version} ${lit}`).digest('hex').slice(0, 12)}"`;
  }

  #root(): Body {
    const { identity } = this.#controller;
    return {
      ...head(`${ROOT}/`, 'ServiceRoot.v1_9_0.ServiceRoot', 'Root Service'),
      Id: 'RootService',
      RedfishVersion: '1.11.0',
      UUID: identity.uuid,
      Vendor: identity.manufacturer,
      Product: identity.product,
      Systems: at(`${ROOT}/Systems`),
      Chassis: at(`${ROOT}/Chassis`),
      Managers: at(`${ROOT}/Managers`),
      SessionService: at(`${ROOT}/SessionService`),
      AccountService: at(`${ROOT}/AccountService`),
      CertificateService: at(`${ROOT}/CertificateService`),
      Links: { Sessions: at(SESSIONS) },
    };
  }

  #read(path: string): Body | undefined {
    const { accounts, log } = this.#controller;
    const lists: Readonly<Record<string, () => Body>> = {
      [`${ROOT}/Systems`]: () => collection(path, 'ComputerSystem', [SYSTEM]),
      [SYSTEM]: () => this.#system(),
      [`${SYSTEM}/EthernetInterfaces`]: () =>
        collection(
          path,
          'EthernetInterface',
          this.#cards().map((_, card) => `${path}/${card + 1}`),
        ),
      [`${SYSTEM}/LogServices`]: () => collection(path, 'LogService', [LOG]),
      [LOG]: () => ({
        ...head(path, 'LogService.v1_1_0.LogService', 'Log'),
        Entries: at(`${LOG}/Entries`),
        Actions: { '#LogService.ClearLog': { target: `${LOG}/Actions/LogService.ClearLog` } },
      }),
      [`${LOG}/Entries`]: () =>
        collection(
          path,
          'LogEntry',
          log.map((entry, number) => ({
            ...head(`${LOG}/Entries/${number + 1}`, 'LogEntry.v1_4_0.LogEntry', 'Entry'),
            Created: new Date(entry.at).toISOString(),
            EntryType: 'Event',
            Severity: 'OK',
            Message: entry.text,
          })),
        ),
      [`${ROOT}/Chassis`]: () => collection(path, 'Chassis', [CHASSIS]),
      [CHASSIS]: () => this.#chassis(),
      [`${CHASSIS}/Thermal`]: () => ({
        ...head(path, 'Thermal.v1_6_0.Thermal', 'Thermal'),
        Temperatures: SENSORS.filter(({ kind }) => kind === 'temperature').map(({ name, value, upper }) => ({
          Name: name,
          ReadingCelsius: value,
          UpperThresholdCritical: upper,
          Status: { State: 'Enabled', Health: 'OK' },
        })),
        Fans: SENSORS.filter(({ kind }) => kind === 'fan').map(({ name, value }) => ({
          Name: name,
          Reading: value * 100,
          ReadingUnits: 'RPM',
          Status: { State: 'Enabled', Health: 'OK' },
        })),
      }),
      [`${CHASSIS}/Power`]: () => ({
        ...head(path, 'Power.v1_6_0.Power', 'Power'),
        PowerControl: SENSORS.filter(({ kind }) => kind === 'power').map(({ name, value }) => ({
          Name: name,
          PowerConsumedWatts: value,
          Status: { State: 'Enabled', Health: 'OK' },
        })),
      }),
      [`${ROOT}/Managers`]: () => collection(path, 'Manager', [MANAGER]),
      [MANAGER]: () => ({
        ...head(path, 'Manager.v1_10_0.Manager', 'Manager'),
        ManagerType: 'BMC',
        FirmwareVersion: '1.0',
        UUID: this.#controller.identity.uuid,
        NetworkProtocol: at(`${MANAGER}/NetworkProtocol`),
        ...(this.#controller.traits.console === 'openbmc' && {
          Oem: { OpenBmc: { '@odata.type': '#OpenBMCManager.v1_0_0.Manager' } },
        }),
        Links: { ManagerForServers: [at(SYSTEM)], ManagerForChassis: [at(CHASSIS)] },
        Actions: {
          '#Manager.Reset': {
            target: `${MANAGER}/Actions/Manager.Reset`,
            'ResetType@Redfish.AllowableValues': ['GracefulRestart'],
          },
        },
      }),
      [`${ROOT}/SessionService`]: () => ({
        ...head(path, 'SessionService.v1_1_7.SessionService', 'Sessions'),
        ServiceEnabled: true,
        SessionTimeout: IDLE_MS / 1000,
        Sessions: at(SESSIONS),
      }),
      [SESSIONS]: () =>
        collection(
          path,
          'Session',
          [...this.#sessions.values()].map(({ id }) => `${SESSIONS}/${id}`),
        ),
      [`${ROOT}/AccountService`]: () => ({
        ...head(path, 'AccountService.v1_8_0.AccountService', 'Accounts'),
        AccountLockoutThreshold: this.#controller.traits.lockOut?.after ?? 0,
        MaxPasswordLength: 20,
        Accounts: at(ACCOUNTS),
      }),
      [ACCOUNTS]: () =>
        collection(
          path,
          'ManagerAccount',
          accounts.flatMap(({ name }, number) =>
            number > 0 && (name !== '' || this.#hasSlots) ? [`${ACCOUNTS}/${number}`] : [],
          ),
        ),
    };
    const found = lists[path]?.() ?? this.#certificate.read(path);
    if (found) return found;
    const [, kind, number = ''] = /\/(Accounts|EthernetInterfaces|Sessions)\/(\d+)$/.exec(path) ?? [];
    if (kind === 'Accounts') return this.#accountBody(path, Number(number));
    const card = kind === 'EthernetInterfaces' ? this.#cards()[Number(number) - 1] : undefined;
    if (card !== undefined)
      return { ...head(path, 'EthernetInterface.v1_6_0.EthernetInterface', 'Card'), MACAddress: card };
    const session = [...this.#sessions.values()].find(({ id }) => id === number);
    return kind === 'Sessions' && session
      ? { ...head(path, 'Session.v1_3_0.Session', 'Session'), UserName: session.user }
      : undefined;
  }

  #cards(): readonly string[] {
    return this.#controller.identity.macs;
  }

  get #hasSlots(): boolean {
    return this.#controller.traits.accounts === 'slots';
  }

  #accountBody(path: string, number: number): Body | undefined {
    const account = this.#controller.accounts[number];
    if (!account || (account.name === '' && !this.#hasSlots)) return undefined;
    return {
      ...head(path, 'ManagerAccount.v1_7_0.ManagerAccount', 'Account'),
      UserName: account.name,
      Enabled: account.enabled,
      RoleId: account.privilege >= 4 ? 'Administrator' : account.privilege === 3 ? 'Operator' : 'ReadOnly',
      Password: null,
    };
  }

  #chassis(): Body {
    const { identity, on } = this.#controller;
    return {
      ...head(CHASSIS, 'Chassis.v1_14_0.Chassis', 'Chassis'),
      ChassisType: 'RackMount',
      Manufacturer: identity.manufacturer,
      Model: identity.product,
      SerialNumber: identity.serial,
      PowerState: on ? 'On' : 'Off',
      Thermal: at(`${CHASSIS}/Thermal`),
      Power: at(`${CHASSIS}/Power`),
      Links: { ComputerSystems: [at(SYSTEM)], ManagedBy: [at(MANAGER)] },
    };
  }

  #system(): Body {
    const { identity, on, boot, lit } = this.#controller;
    const { target, uefi, persistent } = boot;
    const enabled = target === 'none' ? 'Disabled' : persistent ? 'Continuous' : 'Once';
    return {
      ...head(SYSTEM, 'ComputerSystem.v1_13_0.ComputerSystem', 'System'),
      '@odata.etag': this.#tag(),
      SystemType: 'Physical',
      UUID: identity.uuid,
      Manufacturer: identity.manufacturer,
      Model: identity.product,
      SerialNumber: identity.serial,
      BiosVersion: 'Lab 1.0',
      PowerState: on ? 'On' : 'Off',
      LocationIndicatorActive: lit,
      IndicatorLED: lit ? 'Blinking' : 'Off',
      Status: { State: on ? 'Enabled' : 'Disabled', Health: 'OK' },
      Boot: {
        BootSourceOverrideEnabled: enabled,
        BootSourceOverrideMode: uefi ? 'UEFI' : 'Legacy',
        BootSourceOverrideTarget: target in TARGETS ? TARGETS[target as Target] : 'Usb',
        'BootSourceOverrideTarget@Redfish.AllowableValues': Object.values(TARGETS),
        'BootSourceOverrideEnabled@Redfish.AllowableValues': ['Disabled', 'Once', 'Continuous'],
      },
      EthernetInterfaces: at(`${SYSTEM}/EthernetInterfaces`),
      LogServices: at(`${SYSTEM}/LogServices`),
      ...(this.#controller.traits.console === 'named' && {
        SerialConsole: {
          MaxConcurrentSessions: 15,
          WebSocket: { ServiceEnabled: true, Interactive: true, ConsoleURI: CONSOLES.named },
        },
      }),
      Links: { Chassis: [at(CHASSIS)], ManagedBy: [at(MANAGER)] },
      Actions: {
        '#ComputerSystem.Reset': {
          target: RESET,
          'ResetType@Redfish.AllowableValues': Object.keys(RESETS),
        },
      },
    };
  }

  #change(request: RedfishRequest): RedfishAnswer {
    const { method, path, body } = request;
    const fields = fieldsOf(parsed(body));
    if (method === 'POST' && path === RESET) return this.#reset(textOf(fields.ResetType));
    if (method === 'POST' && path === `${LOG}/Actions/LogService.ClearLog`) {
      this.#controller.log.length = 0;
      return done;
    }
    if (method === 'PATCH' && path === SYSTEM) return this.#patchSystem(request, fields);
    const certified = method === 'POST' ? this.#certificate.change(path, fields) : undefined;
    if (certified) return certified;
    const [, kind, number = ''] = /\/(Accounts|Sessions)\/(\d+)$/.exec(path) ?? [];
    if (method === 'DELETE' && kind === 'Sessions') {
      for (const [token, one] of this.#sessions) if (one.id === number) this.#sessions.delete(token);
      return done;
    }
    if (method === 'POST' && path === ACCOUNTS) return this.#newAccount(fields);
    const account = kind === 'Accounts' ? this.#controller.accounts[Number(number)] : undefined;
    if (!account || (account.name === '' && !this.#hasSlots)) return MISSING;
    // As iDRAC does: a new one in a slot is whole, or it is refused.
    if (account.name === '' && !['UserName', 'Password', 'RoleId', 'Enabled'].every((one) => one in fields))
      return failure(400, 'PropertyMissing', 'The account is not whole.');
    if (method === 'DELETE') Object.assign(account, { name: '', password: '', enabled: false, privilege: 0 });
    else if (method === 'PATCH') Object.assign(account, accountFields(fields));
    else return failure(405, 'OperationNotAllowed', 'The method is not allowed.');
    return done;
  }

  #reset(type: string): RedfishAnswer {
    const order = RESETS[type];
    if (!order)
      return failure(
        400,
        'ActionParameterNotSupported',
        `ResetType ${type} is not in the list of those allowed.`,
      );
    if (order !== 'on' && order !== 'off' && !this.#controller.on)
      return failure(409, 'ResourceInStandby', 'The system is off.');
    this.#controller.order(order);
    return done;
  }

  #patchSystem({ headers }: RedfishRequest, fields: Body): RedfishAnswer {
    const condition = textOf(headers['if-match']);
    if (condition !== '' && condition !== '*' && condition !== this.#tag())
      return failure(412, 'PreconditionFailed', 'The resource has another ETag.');
    const { Boot, LocationIndicatorActive, IndicatorLED } = fields;
    const lit = LocationIndicatorActive ?? (IndicatorLED === undefined ? undefined : IndicatorLED !== 'Off');
    if (typeof lit === 'boolean') this.#controller.identify(lit ? 1e6 : 0);
    if (Boot !== undefined) return this.#patchBoot(fieldsOf(Boot));
    return lit === undefined ? failure(400, 'PropertyUnknown', 'No property can be changed.') : done;
  }

  #patchBoot(boot: Body): RedfishAnswer {
    const before = this.#controller.boot;
    const said = boot.BootSourceOverrideTarget;
    const target = (Object.keys(TARGETS) as Target[]).find((one) => TARGETS[one] === said);
    if (said !== undefined && target === undefined)
      return failure(
        400,
        'PropertyValueNotInList',
        `BootSourceOverrideTarget ${textOf(said)} is not in the list.`,
      );
    const enabled = textOf(boot.BootSourceOverrideEnabled) || (before.persistent ? 'Continuous' : 'Once');
    const mode = boot.BootSourceOverrideMode;
    this.#controller.setBoot({
      target: enabled === 'Disabled' ? 'none' : (target ?? before.target),
      uefi: mode === undefined ? before.uefi : mode === 'UEFI',
      persistent: enabled === 'Continuous',
    });
    return done;
  }

  #newAccount(fields: Body): RedfishAnswer {
    if (this.#hasSlots) return failure(405, 'OperationNotAllowed', 'The method is not allowed.');
    const { accounts } = this.#controller;
    const number = accounts.findIndex(({ name }, slot) => slot > 0 && name === '');
    const name = textOf(fields.UserName);
    if (number < 0) return failure(400, 'CreateLimitReachedForResource', 'There is no room.');
    if (name === '' || accounts.some((one) => one.name === name))
      return failure(400, 'ResourceAlreadyExists', `There is an account ${name} already.`);
    Object.assign(accounts[number]!, { privilege: 2, enabled: true }, accountFields(fields));
    const path = `${ACCOUNTS}/${number}`;
    return { status: 201, headers: { location: path }, body: this.#accountBody(path, number) };
  }
}

const PRIVILEGES: Readonly<Record<string, number>> = { Administrator: 4, Operator: 3, ReadOnly: 2 };

function accountFields({ UserName, Password, Enabled, RoleId }: Body): Partial<Account> {
  const privilege = PRIVILEGES[textOf(RoleId)];
  return {
    ...(typeof UserName === 'string' && { name: UserName }),
    ...(typeof Password === 'string' && { password: Password }),
    ...(typeof Enabled === 'boolean' && { enabled: Enabled }),
    ...(privilege !== undefined && { privilege }),
  };
}
