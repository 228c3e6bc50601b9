/** Draws a storm: how many machines have reached each stage at each moment, as SVG. Pure. */

/** One line of the plot. */
export interface StormLine {
  readonly label: string;
  /** Seconds, sorted: when the first machine, the second … reached it. */
  readonly at: ArrayLike<number>;
  readonly dashed?: boolean;
}

const [WIDTH, HEIGHT] = [760, 400];
const AREA = { left: 60, right: 150, top: 36, bottom: 44 } as const;
const COLOURS = ['#1b6ca8', '#2a9d4a', '#b8860b', '#7b3fa0', '#c0392b', '#444444'] as const;
/** Points of a line; more are not visible. */
const POINTS = 200;

/** The next round number (1, 2 or 5 times a power of ten) from `value` on. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((times) => times * power).find((round) => round >= value)!;
}

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** An SVG with a line for each stage: seconds to the right, machines upwards. */
export function stormPlot(title: string, machines: number, lines: readonly StormLine[]): string {
  const last = Math.max(0.1, ...lines.map(({ at }) => at[at.length - 1] ?? 0));
  const step = roundUp(last / 8);
  const seconds = Math.ceil(last / step) * step;
  const [plotWidth, plotHeight] = [WIDTH - AREA.left - AREA.right, HEIGHT - AREA.top - AREA.bottom];
  const x = (second: number): string => (AREA.left + (second / seconds) * plotWidth).toFixed(1);
  const y = (count: number): string => (AREA.top + plotHeight * (1 - count / machines)).toFixed(1);
  const text = (at: string, up: string, anchor: string, words: string): string =>
    `<text x="${at}" y="${up}" text-anchor="${anchor}">${escaped(words)}</text>`;
  const grid = [
    ...Array.from({ length: Math.round(seconds / step) + 1 }, (_, n) => {
      const at = Number((n * step).toPrecision(6));
      return `<path class="grid" d="M${x(at)} ${y(0)}V${y(machines)}"/>${text(x(at), String(HEIGHT - AREA.bottom + 18), 'middle', String(at))}`;
    }),
    ...[0, 0.25, 0.5, 0.75, 1].map((share) => {
      const count = share * machines;
      return `<path class="grid" d="M${x(0)} ${y(count)}H${x(seconds)}"/>${text(String(AREA.left - 6), String(Number(y(count)) + 4), 'end', String(Math.round(count)))}`;
    }),
  ];
  const drawn = lines.map(({ label, at, dashed }, n) => {
    const colour = COLOURS[n % COLOURS.length]!;
    const points = Array.from({ length: Math.min(POINTS, at.length) }, (_, point) => {
      const index = Math.floor(((point + 1) * at.length) / Math.min(POINTS, at.length)) - 1;
      return `${x(at[index]!)} ${y(index + 1)}`;
    });
    const row = AREA.top + 14 + n * 20;
    const style = `stroke="${colour}"${dashed ? ' stroke-dasharray="6 4"' : ''}`;
    const [from, to] = [WIDTH - AREA.right + 12, WIDTH - AREA.right + 36];
    return [
      `<path class="line" ${style} d="M${x(0)} ${y(0)}L${points.join('L')}"/>`,
      `<path class="line" ${style} d="M${from} ${row}H${to}"/>`,
      text(String(to + 6), String(row + 4), 'start', label),
    ].join('');
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}">
<style>text{font:12px sans-serif;fill:#222}.grid{stroke:#ddd;fill:none}.line{fill:none;stroke-width:2}</style>
<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>
${text(String(AREA.left), '20', 'start', title)}
${text(x(seconds / 2), String(HEIGHT - 8), 'middle', 'seconds after power-on')}
${[...grid, ...drawn].join('\n')}
</svg>
`;
}
