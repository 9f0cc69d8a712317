// What the gate said to a change: done, held for a yes, or refused.

import { Refused } from "../api";

export interface Verdict {
  verdict: "accepted" | "held" | "refused";
  rev: number;
  changed?: boolean;
  approval?: string;
  why?: string;
  said?: string;
  faults?: Fault[];
}

interface Fault {
  message: string;
  hint: string;
  rule: string;
  path: string[];
}

/** All grounds on which the gate refuses a change, and all cures. */
export function refusal(faults: readonly Fault[]): Refused {
  const words = faults.map((one) => `${one.path.length > 0 ? `${one.path.join("/")}: ` : ""}${one.message} (${one.rule})`);
  return new Refused(403, words.join("\n") || "refused", [...new Set(faults.map((one) => one.hint).filter(Boolean))].join("\n"));
}

/** A sentence for what came of it; throws a refusal with all its grounds and cures. */
export function heldOrDone(verdict: Verdict, did: string): string {
  switch (verdict.verdict) {
    case "refused":
      throw refusal(verdict.faults ?? []);
    case "held":
      return `held: ${verdict.why ?? ""}; it waits as ${verdict.approval ?? "an approval"}`;
    default:
      return verdict.changed === false ? "nothing to change" : `${verdict.said ?? did}, rev ${verdict.rev}`;
  }
}
