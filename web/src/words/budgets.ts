// The cost of tasks, including their child tasks, and their budgets: the sums and texts of
// client/planloop/client/render/budgets.py; a shared test compares both.

import type { Json, Resource } from "../log/record";
import { count, duration, money } from "./amounts";
import { map, text } from "./objects";

const IN_ORDER = ["usd", "tokens", "time_s", "calls", "turns", "retries"] as const;
export type Unit = (typeof IN_ORDER)[number];
const COUNTED: readonly Unit[] = ["usd", "tokens"]; // Shown even without a limit.
const LABELS: Record<Unit, string> = { usd: "money", tokens: "tokens", time_s: "time", calls: "calls", turns: "turns", retries: "retries" };

/** The use of one unit by a task. `bound` is its limit, if it has one. */
export interface Use {
  unit: Unit;
  label: string;
  used: number;
  bound?: number;
  /** Set aside but not used: granted to children, reserved for requests, kept for a handover. */
  held: number;
  /** `$0.84 of $20.00`. */
  words: string;
}

type Tasks = ReadonlyMap<string, Resource>;

/** The costs of a plan's tasks. Sums are computed on first use. */
export class Costs {
  private uids: Map<string, Resource> | undefined;
  private below: Map<string, Map<Unit, number>> | undefined;

  constructor(
    private readonly tasks: Tasks,
    private readonly agents: ReadonlyMap<string, Resource>,
  ) {}

  /** Returns the use of each unit by the task. */
  uses(item: Resource): Use[] {
    const ledger = map(item.status.ledger);
    const found: Use[] = [];
    for (const unit of IN_ORDER) {
      const label = LABELS[unit];
      const account = ledger[unit];
      if (account !== undefined) {
        const used = this.used(account, unit);
        const bound = Number(map(account).bound);
        const least = map(account).unknown ? "at least " : "";
        found.push({ unit, label, used, bound, held: Math.max(0, committed(account) - used), words: least + ofBound(unit, used, bound) });
      } else if (COUNTED.includes(unit)) {
        const used = this.counted(item.address).get(unit);
        if (used) found.push({ unit, label, used, held: 0, words: amountWords(unit, used) });
      }
    }
    return found;
  }

  /** Returns `$0.84 of $20.00, 212k of 2M tokens`; empty if nothing was spent and there is no limit. */
  line(item: Resource): string {
    return this.uses(item)
      .map((use) => use.words)
      .join(", ");
  }

  /** Returns the use of the most important unit: money if there is any, else the first limit. */
  short(item: Resource): string {
    return this.uses(item)[0]?.words ?? "";
  }

  private used(account: Json, unit: Unit): number {
    let used = Number(map(account).spent ?? 0);
    for (const uid of Object.keys(map(map(account).granted))) {
      const held = map(this.byUid(uid)?.status.ledger)[unit];
      if (held !== undefined) used += this.used(held, unit);
    }
    return used;
  }

  private byUid(uid: string): Resource | undefined {
    this.uids ??= new Map([...this.tasks.values()].map((task) => [task.uid, task]));
    return this.uids.get(uid);
  }

  private counted(address: string): ReadonlyMap<Unit, number> {
    this.below ??= this.addedUp();
    return this.below.get(address) ?? new Map();
  }

  private addedUp(): Map<string, Map<Unit, number>> {
    const found = new Map<string, Map<Unit, number>>();
    const add = (from: string, used: Json | undefined): void => {
      const amounts = map(used);
      for (let at = from; at !== ""; ) {
        const task = this.tasks.get(at);
        if (task === undefined) return;
        let mine = found.get(at);
        if (mine === undefined) found.set(at, (mine = new Map()));
        for (const unit of COUNTED) if (amounts[unit]) mine.set(unit, (mine.get(unit) ?? 0) + Number(amounts[unit]));
        at = text(task.spec.parent);
      }
    };
    for (const agent of this.agents.values()) if (agent.status.used) add(text(agent.spec.task), agent.status.used);
    for (const task of this.tasks.values()) if (task.status.gone) add(task.address, task.status.gone);
    return found;
  }
}

/** The sum of everything spent, granted, reserved and kept for a handover. */
function committed(account: Json): number {
  const { spent, granted, reserved, handover } = map(account);
  let sum = Number(spent ?? 0) + Number(handover ?? 0);
  for (const amount of Object.values(map(granted))) sum += Number(amount);
  for (const requests of Object.values(map(reserved))) for (const amount of Object.values(map(requests))) sum += Number(amount);
  return sum;
}

/** Returns `212k of 2M tokens`. */
function ofBound(unit: Unit, used: number, bound: number): string {
  if (unit === "usd" || unit === "time_s") return `${amountWords(unit, used)} of ${amountWords(unit, bound)}`;
  return `${count(used)} of ${amountWords(unit, bound)}`;
}

/** Returns `$0.84`, `212k tokens` or `1m40s`. */
function amountWords(unit: Unit, amount: number): string {
  if (unit === "usd") return money(amount);
  return unit === "time_s" ? duration(amount) : `${count(amount)} ${unit}`;
}
