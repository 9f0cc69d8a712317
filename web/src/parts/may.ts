// Whether anything may be changed here at all; one place says it for all buttons.

import { plan } from "../log/plan";
import { session } from "../session";

/** Why there are no buttons, as a sentence; empty when there are. */
export function whyNot(): string {
  if (session.value.right === "read") return "This link may only look.";
  if (plan.past.value !== null) return "This is the past: nothing can be changed from here.";
  return "";
}
