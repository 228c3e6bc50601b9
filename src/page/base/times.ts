/** Times for people. Pure. */

/** `1 machine`, `3 machines`. */
export const count = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? '' : 's'}`;

/** `850 ms`, `3.2 s`, `4 min 10 s`, `3 h 20 min`. */
export function span(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  const [minutes, rest] = [Math.floor(seconds / 60), seconds % 60];
  if (minutes < 60) return rest === 0 ? `${minutes} min` : `${minutes} min ${rest} s`;
  const left = minutes % 60;
  return left === 0 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 60)} h ${left} min`;
}

/** `2026-11-26 21:40:03`, in the time zone of the browser. */
export function moment(at: string | number): string {
  const date = new Date(at);
  const two = (n: number): string => String(n).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
