// The gate's verdict on a change: accepted, held for approval, or refused.

import { Refused } from "../api";

export interface Verdict {
  verdict: "accepted" | "held" | "refused";
  rev: number;
  changed?: boolean;
  approval?: string;
  why?: string;
  said?: string;
  faults?: Finding[];
}

interface Finding {
  message: string;
  hint: string;
  rule: string;
  path: string[];
}

/** Returns an error with all reasons and hints of a refused change. */
export function refusal(findings: readonly Finding[]): Refused {
  const reasons = findings.map((one) => `${one.path.length > 0 ? `${one.path.join("/")}: ` : ""}${one.message} (${one.rule})`);
  return new Refused(403, reasons.join("\n") || "refused", [...new Set(findings.map((one) => one.hint).filter(Boolean))].join("\n"));
}

/** Returns a sentence about an accepted or held change. Throws Refused for a refused one, with all reasons and hints. */
export function heldOrDone(verdict: Verdict, did: string): string {
  switch (verdict.verdict) {
    case "refused":
      throw refusal(verdict.faults ?? []);
    case "held":
      return `Held for approval: ${verdict.why ?? ""}. Approve or reject ${verdict.approval ?? "it"}.`;
    default:
      return verdict.changed === false ? "no change" : `${verdict.said ?? did}, rev ${verdict.rev}`;
  }
}
