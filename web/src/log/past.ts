// Any revision of the plan, folded here: the objects as they were at the last whole thousand, which the server says,
// and the records since then. So a step back costs a fold of at most a thousand records, and no request once they are
// here.

import { get } from "../api";
import { fold } from "./fold";
import type { LogRecord, Resource } from "./record";

const STRETCH = 1_000;
const STRETCHES_MAX = 8;

/** The whole plan at one revision. */
export interface Moment {
  rev: number;
  /** When that revision was written, in seconds since 1970. */
  at: number;
  objects: ReadonlyMap<string, Resource>;
  /** What the log says before and up to that revision, as far as it was needed. */
  records: readonly LogRecord[];
}

/** The revisions over `start`, up to a thousand of them, and how it was at `start`. */
interface Stretch {
  start: number;
  objects: ReadonlyMap<string, Resource>;
  records: LogRecord[];
  /** What is being read of it, or was last. */
  reading: Promise<void>;
}

export class Past {
  private readonly stretches = new Map<number, Promise<Stretch>>();

  /** The plan as of `rev`, which the log has. Throws Refused. */
  async at(rev: number): Promise<Moment> {
    const start = Math.floor((rev - 1) / STRETCH) * STRETCH;
    const stretch = await this.stretch(start);
    await reach(stretch, rev);
    const objects = new Map(stretch.objects);
    const records = stretch.records.filter((record) => record.rev <= rev);
    for (const record of records) fold(objects, record);
    return { rev, at: records.at(-1)?.at ?? 0, objects, records };
  }

  /** The log is another one. */
  forget(): void {
    this.stretches.clear();
  }

  private stretch(start: number): Promise<Stretch> {
    let known = this.stretches.get(start);
    if (known === undefined) {
      known = taken(start);
      known.catch(() => this.stretches.delete(start));
    }
    this.stretches.delete(start);
    this.stretches.set(start, known);
    const oldest = [...this.stretches.keys()].slice(0, -STRETCHES_MAX);
    for (const one of oldest) this.stretches.delete(one);
    return known;
  }
}

async function taken(start: number): Promise<Stretch> {
  if (start === 0) return { start, objects: new Map(), records: [], reading: Promise.resolve() };
  const answer = await snapshot(start);
  return { start, objects: new Map(answer.objects.map((one) => [one.address, one])), records: [], reading: Promise.resolve() };
}

export interface Snapshot {
  rev: number;
  /** Which log the revision is of. */
  log: string;
  objects: Resource[];
}

/** Everything that the plan has, as of now or of `at`; in as many pages as it takes. */
export async function snapshot(at?: number): Promise<Snapshot> {
  let page = await get<Snapshot & { next: string | null }>("objects", at === undefined ? {} : { at });
  const { rev, log } = page;
  const objects = [...page.objects];
  while (page.next) {
    page = await get("objects", { at: rev, from: page.next });
    for (const one of page.objects) objects.push(one);
  }
  return { rev, log, objects };
}

/** Reads on until the stretch has `rev`; of several who drag through it each waits for what the one before reads. */
function reach(stretch: Stretch, rev: number): Promise<void> {
  stretch.reading = stretch.reading.catch(() => undefined).then(() => readOn(stretch, rev));
  return stretch.reading;
}

async function readOn(stretch: Stretch, rev: number): Promise<void> {
  for (;;) {
    const after = stretch.records.at(-1)?.rev ?? stretch.start;
    if (after >= rev) return;
    const limit = stretch.start + STRETCH - after;
    const { records } = await get<{ records: LogRecord[] }>("log", { after, limit });
    if (records.length === 0) throw new Error(`the log has no revision ${rev}`);
    stretch.records.push(...records);
  }
}
