/** Damaged answers of BMCs: each is a value or a reason, never an error, and none is believed. */
import { expect, it } from 'vitest';
import { fieldsOf, parsed } from '../../../src/base/foreign-json.ts';
import { BmcFault, BOOT_TARGETS, POWER_ORDERS } from '../../../src/bmc/bmc.ts';
import { bootIn, getBoot, nameIn, powerIn, setBoot, usersIn } from '../../../src/bmc/ipmi/commands.ts';
import {
  decodeAnswer,
  decodeFrame,
  encodeFrame,
  encodeRequest,
  PAYLOADS,
} from '../../../src/bmc/ipmi/packet.ts';
import * as records from '../../../src/bmc/ipmi/records.ts';
import {
  openRequest,
  readOpenAnswer,
  readRakp2,
  readRakp4,
  sealingOf,
} from '../../../src/bmc/ipmi/session.ts';
import { certificatesBy } from '../../../src/bmc/redfish/certificates.ts';
import { isOpenBmc, namedConsole } from '../../../src/bmc/redfish/console.ts';
import * as redfish from '../../../src/bmc/redfish/model.ts';
import * as ssdp from '../../../src/bmc/redfish/ssdp.ts';
import { damagedOctets, damagedRecords } from '../fuzzing.ts';
import { FULL_RECORD, LOG_RECORD, PRODUCT } from './records.ts';

const SEALING = sealingOf(17, Buffer.alloc(32, 7));
const EXCHANGE = { suite: 17, user: 'ada', password: 'b', ours: 1, random: Buffer.alloc(16) } as const;
const PART = { random: Buffer.alloc(16), guid: Buffer.alloc(16) };

it('damaged datagrams of IPMI are a value or a reason, and what is sealed stays so', async () => {
  const payload = encodeRequest(
    getBoot.netFn + 1,
    getBoot.command,
    setBoot('network', { uefi: true }).data,
    7,
  );
  const message = { type: PAYLOADS.message, session: 1, sequence: 5, payload };
  const sealed = encodeFrame(message, SEALING);
  const open = encodeFrame({ ...message, type: PAYLOADS.openAnswer, payload: openRequest(EXCHANGE) });
  const intact = sealed.toString('hex');
  await damagedOctets('ipmi', [sealed, open, payload], (octets) => {
    const opened = decodeFrame(octets, SEALING);
    // The first four octets are the header of RMCP, which the code does not cover.
    if (opened.ok && octets.subarray(4).toString('hex') !== intact.slice(8)) throw new Error('was believed');
    decodeFrame(octets);
    const answer = decodeAnswer(octets);
    if (answer.ok) bootIn(answer.value.data);
    bootIn(octets);
    powerIn(octets);
    if (usersIn(octets) > 63 || nameIn(octets).length > octets.length) throw new Error('has no end');
    readOpenAnswer(octets, EXCHANGE);
    if (readRakp2(octets, EXCHANGE, 2).ok) throw new Error('proved nothing, and was believed');
    if (readRakp4(octets, EXCHANGE, 2, PART, Buffer.alloc(32)).ok) throw new Error('has no key');
  });
});

const consoleOf = (resource: redfish.Resource): string => {
  try {
    return namedConsole(resource) ?? '/none';
  } catch (error) {
    if (error instanceof BmcFault) return '/none';
    throw error;
  }
};

it('damaged resources of Redfish lead nowhere but to the BMC itself', async () => {
  const target = '/redfish/v1/Systems/1/Actions/ComputerSystem.Reset';
  const system = {
    '@odata.id': '/redfish/v1/Systems/1',
    PowerState: 'On',
    Boot: {
      BootSourceOverrideEnabled: 'Once',
      BootSourceOverrideTarget: 'Pxe',
      BootSourceOverrideMode: 'UEFI',
      'BootSourceOverrideTarget@Redfish.AllowableValues': ['None', 'Pxe'],
    },
    Actions: { '#ComputerSystem.Reset': { target, 'ResetType@Redfish.AllowableValues': ['On', 'ForceOff'] } },
    '@Redfish.Settings': { SettingsObject: { '@odata.id': '/redfish/v1/Systems/1/SD' } },
    SerialConsole: { WebSocket: { ServiceEnabled: true, ConsoleURI: '/console/default?system=1' } },
    Oem: { OpenBmc: {} },
  };
  const collection = { Members: [{ '@odata.id': '/redfish/v1/Systems/1' }] };
  const error = { error: { '@Message.ExtendedInfo': [{ MessageId: 'Base.1.8.A', Message: 'no' }] } };
  await damagedRecords('redfish', [system, collection, error], (text) => {
    const value = parsed(text);
    const body = typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
    const resource = { path: '/redfish/v1/Systems/1', body };
    expect(['on', 'off', 'paused', 'unknown']).toContain(redfish.powerIn(resource));
    redfish.bootIn(resource);
    for (const boot of BOOT_TARGETS) redfish.bootChange(resource, boot, { uefi: true });
    const paths = [
      ...POWER_ORDERS.map((order) => redfish.resetFor(resource, order)?.path),
      redfish.settingsOf(resource),
      ...redfish.membersOf(resource),
    ];
    isOpenBmc(resource);
    if (!/^\/[^/].*$/.test(consoleOf(resource))) throw new Error('its console leads elsewhere');
    for (const path of paths)
      if (path !== undefined && !path.startsWith('/redfish/v1')) throw new Error(`leads to ${path}`);
    if (redfish.errorIn(value).length > 300 || redfish.errorCodeIn(value).length > 60)
      throw new Error('its words have no end');
  });
});

it('damaged records of sensors, logs and parts are short plain texts and finite readings', async () => {
  await damagedOctets('records', [FULL_RECORD, LOG_RECORD, PRODUCT], (octets) => {
    const sensor = records.sensorIn(octets);
    const read = sensor && records.readSensor(sensor, octets);
    if (read?.value !== undefined && !Number.isFinite(read.value)) throw new Error('no reading');
    const entry = records.logEntryIn(octets);
    for (const text of [read?.name ?? '', entry?.text ?? ''])
      if (text.length > 300 || /[\u0000-\u001f\u007f-\u009f]/.test(text)) throw new Error(`says ${text}`);
    const { board, product } = records.areasIn(octets);
    if (board > 2040 || product > 2040 || records.areaLength(octets) > 2040) throw new Error('too far');
    if (records.fruTexts(octets, 'board').length > octets.length) throw new Error('no end');
  });
});

it('damaged answers to searches name a short URL of Redfish, or nothing', async () => {
  const answer = ssdp.answerOf({ uuid: '4c4c4544-0042', location: 'https://10.78.0.10/redfish/v1/' });
  const upnp = answer.toString().replace('AL: ', 'LOCATION: <').replace('/v1/', '/v1>');
  await damagedOctets('ssdp', [answer, upnp, ssdp.SEARCH], (octets) => {
    const read = ssdp.readAnswer(octets);
    ssdp.isSearch(octets);
    if (read === undefined) return;
    ssdp.isAt(read, '10.78.0.10');
    if (!/^[0-9a-f-]{1,64}$/.test(read.uuid)) throw new Error(`is named ${read.uuid}`);
    if (read.location !== undefined && !/^https?:\/\/[\w.[\]:%-]+\/redfish(\/v1)?\/?$/.test(read.location))
      throw new Error(`leads to ${read.location}`);
  });
});

it('damaged resources of certificates lead nowhere but to the BMC itself', async () => {
  const own = '/redfish/v1/Managers/1';
  const resource = {
    Links: { ManagedBy: [{ '@odata.id': own }] },
    Members: [{ '@odata.id': own }],
    NetworkProtocol: { '@odata.id': `${own}/NetworkProtocol` },
    HTTPS: { Certificates: { '@odata.id': `${own}/NetworkProtocol/HTTPS/Certificates` } },
    Actions: {
      '#CertificateService.GenerateCSR': { target: '/redfish/v1/CertificateService/Actions/A' },
      '#CertificateService.ReplaceCertificate': { target: '/redfish/v1/CertificateService/Actions/B' },
    },
    CSRString: 'request',
  };
  await damagedRecords('certificates', [resource], async (text) => {
    const body = fieldsOf(parsed(text));
    const asked = async (path: string) => {
      if (!path.startsWith('/redfish/v1')) throw new Error(`leads to ${path}`);
      return { path, body };
    };
    const asks = { get: asked, post: async (path: string) => (await asked(path)).body };
    const by = certificatesBy(asks, '/redfish/v1/Systems/1');
    for (const done of [by.request(), by.replace('certificate')])
      await done.catch((error: unknown) => {
        if (!(error instanceof BmcFault)) throw error;
      });
  });
});
