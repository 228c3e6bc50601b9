/** `muster backup schedule`: writes the units of a timer. */
import fs from 'node:fs';
import path from 'node:path';
import { MusterError } from '../../base/errors.ts';
import { readRecipient } from '../../pki/age.ts';
import { EXIT, type Io } from '../io.ts';

interface ScheduleOptions {
  readonly to: string;
  readonly recipient: readonly string[];
  readonly every: string;
  readonly keep: string;
  readonly units: string;
}

const SERVICE = 'muster-backup.service';
const TIMER = 'muster-backup.timer';

/**
 * The texts of both units.
 *
 * @throws {MusterError} E_USAGE for a value that a unit cannot hold
 */
export function unitsOf({ to, recipient, every, keep }: Omit<ScheduleOptions, 'units'>): {
  readonly service: string;
  readonly timer: string;
} {
  for (const one of recipient) readRecipient(one);
  if (!/^\/[A-Za-z0-9._/-]*$/.test(to))
    throw new MusterError('E_USAGE', `--to ${to}: write an absolute path of letters, digits and ._/-`);
  if (!/^[1-9][0-9]{0,3}$/.test(keep))
    throw new MusterError('E_USAGE', '--keep takes a number from 1 to 9999');
  if (!/^[A-Za-z0-9*.,:/ -]{1,80}$/.test(every))
    throw new MusterError('E_USAGE', `--every ${every}: write it like daily or "*-*-* 03:00"`);
  const words = [`-o ${to}`, ...recipient.map((one) => `--recipient ${one}`), `--keep ${keep}`];
  return {
    service: [
      '[Unit]',
      'Description=Backup of the boot host of Muster',
      'After=muster.service',
      '',
      '[Service]',
      'Type=oneshot',
      `ExecStart=muster backup create ${words.join(' ')}`,
      'Nice=10',
      '',
    ].join('\n'),
    timer: [
      '[Unit]',
      'Description=Backups of the boot host of Muster',
      '',
      '[Timer]',
      `OnCalendar=${every}`,
      'RandomizedDelaySec=10m',
      'Persistent=true',
      '',
      '[Install]',
      'WantedBy=timers.target',
      '',
    ].join('\n'),
  };
}

/** Writes the units. Throws as {@link unitsOf}. */
export async function schedule(options: ScheduleOptions, io: Io): Promise<number> {
  const { service, timer } = unitsOf(options);
  fs.writeFileSync(path.join(options.units, SERVICE), service);
  fs.writeFileSync(path.join(options.units, TIMER), timer);
  io.out(
    `${options.units} has ${SERVICE} and ${TIMER}; systemctl daemon-reload, then systemctl enable --now ${TIMER}\n`,
  );
  return EXIT.ok;
}
