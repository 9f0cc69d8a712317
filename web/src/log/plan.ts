// The plan in the browser: a snapshot at one revision, plus the log records since then.
//
// Components read signals: `object(address)` for one object, `kind(name)` for all of a kind, `rev` for everything. While
// a past revision is shown, all of them have its values, and new records are still applied in the background. Records
// are applied in batches, so that 1,000 records a second update each component 20 times.

import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { get } from "../api";
import { oneAtATime } from "../once";
import { fold } from "./fold";
import { type Moment, Past, snapshot } from "./past";
import type { LogRecord, Resource } from "./record";
import { follow, type Line } from "./tail";

export const RECENT_MAX = 2_000;
const EARLIER = 300; // Records from before the page was opened.
const PACE_MS = 50;

type Objects = Map<string, Resource>;

export class Plan {
  /** The newest revision that was applied. */
  readonly head: Signal<number> = signal(0);
  /** The id of the log that `head` belongs to. */
  readonly log: Signal<string> = signal("");
  /** The past revision that is shown; null while the page is live. */
  readonly past: ReadonlySignal<number | null>;
  /** When that revision was written, in seconds since 1970; null while the page is live. */
  readonly pastAt: ReadonlySignal<number | null>;
  /** The revision that is shown. */
  readonly rev: ReadonlySignal<number>;
  readonly line: Signal<Line> = signal("connecting");
  /** Counts reconnections: data that does not come from the log is read again after each. */
  readonly returns: Signal<number> = signal(0);
  /** The newest records up to `rev`; older ones are read from the server. */
  readonly recent: ReadonlySignal<readonly LogRecord[]>;

  private readonly live: Objects = new Map();
  private readonly liveRecent: Signal<readonly LogRecord[]> = signal([]);
  private readonly moment: Signal<Moment | null> = signal(null);
  private readonly history = new Past();
  private readonly one = new Map<string, Signal<Resource | undefined>>();
  private readonly kinds = new Map<string, Signal<ReadonlyMap<string, Resource>>>();
  private waiting: LogRecord[] = [];
  /** Whether the connection has not been lost since it was last live. True at the start: the first read is fresh. */
  private isBack = true;
  private foldedAt = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** The revision that was requested last; null for the newest. */
  private wanted: number | null = null;

  constructor() {
    this.past = computed(() => this.moment.value?.rev ?? null);
    this.pastAt = computed(() => this.moment.value?.at ?? null);
    this.rev = computed(() => this.moment.value?.rev ?? this.head.value);
    this.recent = computed(() => this.moment.value?.records ?? this.liveRecent.value);
  }

  /** Loads the snapshot; `listen` continues from there. */
  async load(): Promise<void> {
    const answer = await snapshot();
    batch(() => {
      if (answer.log !== this.log.peek()) {
        this.liveRecent.value = [];
        this.history.forget();
        this.moment.value = null;
        this.wanted = null;
      }
      this.log.value = answer.log;
      this.waiting = [];
      const touched = new Set([...this.live.keys(), ...this.one.keys()]);
      this.live.clear();
      for (const resource of answer.objects) this.live.set(resource.address, resource);
      for (const address of this.live.keys()) touched.add(address);
      if (this.moment.value === null) this.wake(touched);
      this.head.value = answer.rev;
    });
    void this.loadEarlier(answer.rev);
  }

  /** Loads the last records before `rev`. Ignores a failure: the page does not need them. */
  private async loadEarlier(rev: number): Promise<void> {
    const after = Math.max(0, rev - EARLIER);
    const answer = await get<{ records: LogRecord[] }>("log", { after, limit: EARLIER }).catch(() => ({ records: [] }));
    const before = answer.records.filter((record) => record.rev <= rev);
    this.liveRecent.value = [...before, ...this.liveRecent.value.filter((record) => record.rev > rev)];
  }

  /** Follows the log until the returned function is called. */
  listen(): () => void {
    return follow({
      rev: () => this.waiting.at(-1)?.rev ?? this.head.value,
      log: () => this.log.peek(),
      reload: () => this.load(),
      line: (state) => this.setLine(state),
      records: (found) => this.take(found),
    });
  }

  private setLine(state: Line): void {
    if (state === "lost") this.isBack = false;
    batch(() => {
      this.line.value = state;
      if (state !== "live" || this.isBack) return;
      this.isBack = true;
      this.returns.value += 1;
    });
  }

  /** The object at `address`; undefined while it does not exist. */
  object(address: string): ReadonlySignal<Resource | undefined> {
    let known = this.one.get(address);
    if (known === undefined) {
      known = signal(this.shown.get(address));
      this.one.set(address, known);
    }
    return known;
  }

  /** All objects of a kind, by address. */
  kind(name: string): ReadonlySignal<ReadonlyMap<string, Resource>> {
    let known = this.kinds.get(name);
    if (known === undefined) {
      known = signal(this.ofKind(name));
      this.kinds.set(name, known);
    }
    return known;
  }

  /**
   * Shows the plan as of `rev`; null shows the newest. Only the last of several requests counts: revisions that the
   * slider passes during a read are skipped.
   */
  async look(rev: number | null): Promise<void> {
    this.wanted = rev === null || rev >= this.head.peek() ? null : rev;
    if (this.wanted === null) this.show(null);
    else await this.goBack();
  }

  private readonly goBack = oneAtATime(async () => {
    const rev = this.wanted;
    if (rev === null) return;
    const found = await this.history.at(rev);
    if (this.wanted === rev) this.show(found);
  });

  private get shown(): ReadonlyMap<string, Resource> {
    return this.moment.peek()?.objects ?? this.live;
  }

  private show(moment: Moment | null): void {
    const before = this.shown;
    batch(() => {
      this.moment.value = moment;
      const after = this.shown;
      const touched = new Set<string>();
      for (const [address, resource] of after) if (before.get(address) !== resource) touched.add(address);
      for (const address of before.keys()) if (!after.has(address)) touched.add(address);
      this.wake(touched);
    });
  }

  private take(records: LogRecord[]): void {
    this.waiting.push(...records);
    if (this.timer !== undefined || this.waiting.length === 0) return;
    const pause = this.foldedAt + PACE_MS - performance.now();
    if (pause <= 0) this.foldWaiting();
    else this.timer = setTimeout(() => this.foldWaiting(), pause);
  }

  private foldWaiting(): void {
    this.timer = undefined;
    const records = this.waiting;
    const last = records.at(-1);
    if (last === undefined) return;
    this.waiting = [];
    batch(() => {
      const touched = new Set<string>();
      for (const record of records) for (const address of fold(this.live, record)) touched.add(address);
      if (this.moment.value === null) this.wake(touched);
      this.liveRecent.value = [...this.liveRecent.value, ...records].slice(-RECENT_MAX);
      this.head.value = last.rev;
    });
    this.foldedAt = performance.now();
  }

  private wake(touched: Set<string>): void {
    const kinds = new Map<string, string[]>();
    for (const address of touched) {
      const kind = kindOf(address);
      const others = kinds.get(kind);
      if (others === undefined) kinds.set(kind, [address]);
      else others.push(address);
      const one = this.one.get(address);
      if (one !== undefined) one.value = this.shown.get(address);
    }
    for (const [kind, addresses] of kinds) {
      const all = this.kinds.get(kind);
      if (all !== undefined) all.value = this.updated(kind, all.peek(), addresses);
    }
  }

  /** Returns the map of a kind after a change at `addresses`; sorts it only if objects were added or removed. */
  private updated(kind: string, old: ReadonlyMap<string, Resource>, addresses: string[]): ReadonlyMap<string, Resource> {
    if (!addresses.every((address) => old.has(address) && this.shown.has(address))) return this.ofKind(kind);
    const changed = new Map(old);
    for (const address of addresses) changed.set(address, this.shown.get(address) as Resource);
    return changed;
  }

  private ofKind(name: string): ReadonlyMap<string, Resource> {
    const prefix = `${name}/`;
    const found = [...this.shown].filter(([address]) => address.startsWith(prefix));
    return new Map(found.sort(([a], [b]) => (a < b ? -1 : 1)));
  }
}

export function kindOf(address: string): string {
  return address.slice(0, address.indexOf("/"));
}

/** The one plan of this page. */
export const plan = new Plan();
