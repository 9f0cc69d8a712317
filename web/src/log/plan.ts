// The plan as this page knows it: nothing but a fold of the log, from a snapshot at one revision on.
//
// Readers take part by signals: `object(address)` for one, `kind(name)` for all of a kind, `rev` for everything. While
// one looks at the past they all say how it was then, and the live fold goes on behind. What comes in a burst is folded
// together, so that a thousand events a second wake each reader twenty times.

import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { get } from "../api";
import { oneAtATime } from "../once";
import { fold } from "./fold";
import { type Moment, Past, snapshot } from "./past";
import type { LogRecord, Resource } from "./record";
import { follow, type Line } from "./tail";

export const RECENT_MAX = 2_000;
const REMEMBERED = 300; // Records from before the page was opened.
const PACE_MS = 50;

type Objects = Map<string, Resource>;

export class Plan {
  /** The newest revision that is folded. */
  readonly head: Signal<number> = signal(0);
  /** Which log `head` is a revision of. */
  readonly log: Signal<string> = signal("");
  /** The revision that is looked at instead of the newest; null while the page is live. */
  readonly past: ReadonlySignal<number | null>;
  /** When the revision that is looked at was written, in seconds since 1970; null while the page is live. */
  readonly pastAt: ReadonlySignal<number | null>;
  /** The revision that everything here is of. */
  readonly rev: ReadonlySignal<number>;
  readonly line: Signal<Line> = signal("connecting");
  /** Rises when the server is there again after an outage: what is read beside the fold is then read anew. */
  readonly returns: Signal<number> = signal(0);
  /** The newest records up to `rev`, for pages that show what happens; older ones are read from the server. */
  readonly recent: ReadonlySignal<readonly LogRecord[]>;

  private readonly live: Objects = new Map();
  private readonly liveRecent: Signal<readonly LogRecord[]> = signal([]);
  private readonly moment: Signal<Moment | null> = signal(null);
  private readonly history = new Past();
  private readonly one = new Map<string, Signal<Resource | undefined>>();
  private readonly kinds = new Map<string, Signal<ReadonlyMap<string, Resource>>>();
  private waiting: LogRecord[] = [];
  /** Whether the connection was not lost since it was last live; what is read at the start is fresh. */
  private isBack = true;
  private foldedAt = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** The revision that was asked for last; null for the newest. */
  private wanted: number | null = null;

  constructor() {
    this.past = computed(() => this.moment.value?.rev ?? null);
    this.pastAt = computed(() => this.moment.value?.at ?? null);
    this.rev = computed(() => this.moment.value?.rev ?? this.head.value);
    this.recent = computed(() => this.moment.value?.records ?? this.liveRecent.value);
  }

  /** Takes the snapshot; `listen` goes on from there. */
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
    void this.remember(answer.rev);
  }

  /** Reads what happened last before `rev`. Without it the page is whole, so a failure is passed over. */
  private async remember(rev: number): Promise<void> {
    const after = Math.max(0, rev - REMEMBERED);
    const answer = await get<{ records: LogRecord[] }>("log", { after, limit: REMEMBERED }).catch(() => ({ records: [] }));
    const before = answer.records.filter((record) => record.rev <= rev);
    this.liveRecent.value = [...before, ...this.liveRecent.value.filter((record) => record.rev > rev)];
  }

  /** Follows the log until the returned function is called. */
  listen(): () => void {
    return follow({
      rev: () => this.waiting.at(-1)?.rev ?? this.head.value,
      log: () => this.log.peek(),
      anew: () => this.load(),
      line: (state) => this.heard(state),
      records: (found) => this.take(found),
    });
  }

  private heard(state: Line): void {
    if (state === "lost") this.isBack = false;
    batch(() => {
      this.line.value = state;
      if (state !== "live" || this.isBack) return;
      this.isBack = true;
      this.returns.value += 1;
    });
  }

  /** The object at `address`, undefined while there is none. */
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
   * Shows the plan as of `rev`, or live again with null. Of several that are asked for at once the last one counts: what
   * a hand passes while a stretch of the past is read is not read.
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
      if (all !== undefined) all.value = this.renewed(kind, all.peek(), addresses);
    }
  }

  /** The map of a kind after those at `addresses` changed; it is sorted anew only when some came or went. */
  private renewed(kind: string, old: ReadonlyMap<string, Resource>, addresses: string[]): ReadonlyMap<string, Resource> {
    if (!addresses.every((address) => old.has(address) && this.shown.has(address))) return this.ofKind(kind);
    const made = new Map(old);
    for (const address of addresses) made.set(address, this.shown.get(address) as Resource);
    return made;
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
