// What tasks have cost, with all that is below them, and how much of their budgets that is: the sums and words of
// client/planloop/client/render/budgets.py, held to them by a shared test.

import type { Json, Resource } from "../log/record";
import { count, duration, money } from "./amounts";
import { map, text } from "./objects";

const IN_ORDER = ["usd", "tokens", "time_s", "calls", "turns", "retries"] as const;
export type Unit = (typeof IN_ORDER)[number];
const COUNTED: readonly Unit[] = ["usd", "tokens"]; // These are told of even where nothing bounds them.
const LABELS: Record<Unit, string> = { usd: "money", tokens: "tokens", time_s: "time", calls: "calls", turns: "turns", retries: "retries" };

/** One unit of what a task has used. Without a bound it is only counted. */
export interface Use {
  unit: Unit;
  label: string;
  used: number;
  bound?: number;
  /** Set aside and not used: granted to children and left there, reserved for requests, kept for handing over. */
  held: number;
  /** `$0.84 of $20.00`. */
  words: string;
}

type Tasks = ReadonlyMap<string, Resource>;

/** Costs of the tasks of a plan. Sums are made when they are first asked for. */
export class Costs {
  private uids: Map<string, Resource> | undefined;
  private below: Map<string, Map<Unit, number>> | undefined;

  constructor(
    private readonly tasks: Tasks,
    private readonly agents: ReadonlyMap<string, Resource>,
  ) {}

  /** What the task has used, unit by unit. */
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
        if (used) found.push({ unit, label, used, held: 0, words: told(unit, used) });
      }
    }
    return found;
  }

  /** `$0.84 of $20.00, 212k of 2M tokens`; empty when nothing is bounded and nothing was spent. */
  line(item: Resource): string {
    return this.uses(item)
      .map((use) => use.words)
      .join(", ");
  }

  /** The one unit that matters most: money if there is any, else what is bounded first. */
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

/** All that is used, handed on or under way. */
function committed(account: Json): number {
  const { spent, granted, reserved, handover } = map(account);
  let sum = Number(spent ?? 0) + Number(handover ?? 0);
  for (const amount of Object.values(map(granted))) sum += Number(amount);
  for (const requests of Object.values(map(reserved))) for (const amount of Object.values(map(requests))) sum += Number(amount);
  return sum;
}

/** `212k of 2M tokens`. */
function ofBound(unit: Unit, used: number, bound: number): string {
  if (unit === "usd" || unit === "time_s") return `${told(unit, used)} of ${told(unit, bound)}`;
  return `${count(used)} of ${told(unit, bound)}`;
}

/** `$0.84`, `212k tokens`, `1m40s`. */
function told(unit: Unit, amount: number): string {
  if (unit === "usd") return money(amount);
  return unit === "time_s" ? duration(amount) : `${count(amount)} ${unit}`;
}
