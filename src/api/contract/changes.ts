/** Parts of changes that other answers have as well. */
import { z } from 'zod';

export const imagesOfMachine = z.strictObject({
  runs: z.string().optional().meta({
    description: 'The name of the Image that it booted, or the beginning of the SHA-256 of its root image.',
  }),
  wants: z.string().optional().meta({ description: 'The name of the Image that it would boot.' }),
  outdated: z.boolean().meta({ description: 'It is known that the two differ.' }),
});

const agentStates = ['current', 'at-boot', 'refused', 'paused', 'stopped', 'waits', 'taking'] as const;
export const agentOfMachine = z.strictObject({
  machine: z.string(),
  runs: z.string().optional().meta({ description: 'The first characters of the SHA-256 of its agent.' }),
  state: z.enum(agentStates),
  text: z.string(),
});
