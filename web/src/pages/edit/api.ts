// API types of an edit, under the names that this page uses, and texts about them.

import type { components } from "../../api-types";

type Forms = components["schemas"];

export type Base = Forms["DraftBase"];
export type EditText = Forms["EditText"];
export type Format = EditText["format"];
export type NewDraft = Forms["NewDraft"];
export type Pulled = Forms["Pulled"];

export type Look = Forms["Look"];
export type TextError = Forms["TextFault"];
export type Span = Forms["Span"];
export type Point = Forms["Point"];
export type Conflict = Forms["Clash"];
export type Side = NonNullable<Conflict["taken"]>;
export type Row = Forms["EffectRow"];
export type GateError = Forms["EditFault"];

type EditVerdict = Forms["EditVerdict"];

/** Only `shown` has a look, and only `accepted` has a new draft. */
export type Verdict =
  | (EditVerdict & { verdict: "shown"; look: Look })
  | (EditVerdict & { verdict: "accepted"; draft: NewDraft })
  | (EditVerdict & { verdict: "held" | "refused" });

export const FIX_FIRST = "Fix the errors first.";
export const RESOLVE_FIRST = "Resolve the conflicts first.";

/** Whether the user has not yet chosen a side in one of the conflicts. */
export function hasOpenConflict(look: Look): boolean {
  return look.clashes.some((one) => one.taken === null);
}
