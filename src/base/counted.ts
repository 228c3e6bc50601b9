/** `1 machine`, `2 machines`: a number of things whose plural ends with an s. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;
