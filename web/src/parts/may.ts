// Whether the page may change the plan, for all buttons.

import { plan } from "../log/plan";
import { session } from "../session";

export const READ_ONLY_LINK = "This link is read-only.";

/** Returns why the page is read-only, as a sentence; empty if it is not. */
export function readOnlyReason(): string {
  if (session.value.right === "read") return READ_ONLY_LINK;
  if (plan.past.value !== null) return "This is a past revision, so it is read-only.";
  return "";
}
