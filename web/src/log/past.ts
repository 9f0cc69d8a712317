// Any past revision of the plan: the server's snapshot at the last multiple of 1,000, plus the records since then. So a
// step back folds at most 1,000 records, and needs no request if they are loaded.

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
  /** The loaded records up to that revision. */
  records: readonly LogRecord[];
}

/** Up to 1,000 revisions after `start`, and the objects at `start`. */
interface Stretch {
  start: number;
  objects: ReadonlyMap<string, Resource>;
  records: LogRecord[];
  /** The current or last read of its records. */
  reading: Promise<void>;
}

export class Past {
  private readonly stretches = new Map<number, Promise<Stretch>>();

  /** Returns the plan as of `rev`, a revision of the log. Throws Refused. */
  async at(rev: number): Promise<Moment> {
    const start = Math.floor((rev - 1) / STRETCH) * STRETCH;
    const stretch = await this.stretch(start);
    await reach(stretch, rev);
    const objects = new Map(stretch.objects);
    const records = stretch.records.filter((record) => record.rev <= rev);
    for (const record of records) fold(objects, record);
    return { rev, at: records.at(-1)?.at ?? 0, objects, records };
  }

  /** Drops everything, because the log was replaced. */
  forget(): void {
    this.stretches.clear();
  }

  private stretch(start: number): Promise<Stretch> {
    let known = this.stretches.get(start);
    if (known === undefined) {
      known = fetchStretch(start);
      known.catch(() => this.stretches.delete(start));
    }
    this.stretches.delete(start);
    this.stretches.set(start, known);
    const oldest = [...this.stretches.keys()].slice(0, -STRETCHES_MAX);
    for (const one of oldest) this.stretches.delete(one);
    return known;
  }
}

async function fetchStretch(start: number): Promise<Stretch> {
  if (start === 0) return { start, objects: new Map(), records: [], reading: Promise.resolve() };
  const answer = await snapshot(start);
  return { start, objects: new Map(answer.objects.map((one) => [one.address, one])), records: [], reading: Promise.resolve() };
}

export interface Snapshot {
  rev: number;
  /** The id of the log that the revision belongs to. */
  log: string;
  objects: Resource[];
}

/** Returns all objects of the plan, as of now or of `at`; reads all pages. */
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

/** Loads records until the stretch has `rev`. Concurrent calls run one after the other. */
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
