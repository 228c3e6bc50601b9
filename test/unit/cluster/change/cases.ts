/**
 * How many cases the properties of changes and of the clock run: `make torture` asks for more than
 * `make unit`.
 */
export const casesOf = (usual: number): number => Number(process.env.MUSTER_PROPERTY_CASES ?? usual);
