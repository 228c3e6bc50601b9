/** The boot host itself: whether its store is the right one, and how it is backed up. */
import { commandOf } from '../base/acts.ts';
import { ask } from '../base/http.ts';
import { may } from '../base/session.ts';
import { Badge } from '../parts/badge.tsx';
import { CommandLine } from '../parts/command-line.tsx';
import { ProblemNote } from '../parts/note.tsx';
import { Order } from '../parts/order.tsx';
import { useResource } from '../parts/use.ts';

export function BootHost({ version }: { readonly version: string }) {
  const { value, error, reload } = useResource('GET /v1/backup');
  return (
    <section class="card" aria-label="The boot host">
      <h2>The boot host</h2>
      <ProblemNote error={error} />
      <p>
        Muster {version}.{' '}
        {value &&
          (value.state === 'usual' ? (
            <Badge tone="good">its store serves as usual</Badge>
          ) : (
            <>
              <Badge tone="bad">{`its store is ${value.state}`}</Badge> {value.detail}
            </>
          ))}
      </p>
      {value && value.state !== 'usual' && may('administer') && (
        <Order
          label="Accept this store"
          title="Accept the restored store"
          danger
          command={commandOf(['backup', 'accept'], { '--confirm': true })}
          give={async () => {
            await ask('POST /v1/backup/accept');
            reload();
          }}
        >
          <p>
            {value.detail}. What was stored since the backup is lost. Accept it only if it is the right one.
          </p>
        </Order>
      )}
      <p class="dim">
        A backup has the keys of all clusters, so the network never carries it: it is made on the boot host.
      </p>
      <CommandLine text="muster backup create -o /srv/backups --recipient age1… --keep 30" />
    </section>
  );
}
