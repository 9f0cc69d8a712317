// What the server says of an edit: the forms of the API by the names that they have here.

import type { components } from "../../api-types";

type Forms = components["schemas"];

export type Base = Forms["DraftBase"];
export type EditText = Forms["EditText"];
export type Format = EditText["format"];
export type NewDraft = Forms["NewDraft"];
export type Pulled = Forms["Pulled"];

export type Look = Forms["Look"];
export type Fault = Forms["TextFault"];
export type Span = Forms["Span"];
export type Point = Forms["Point"];
export type Clash = Forms["Clash"];
export type Side = NonNullable<Clash["taken"]>;
export type Row = Forms["EffectRow"];
export type GateFault = Forms["EditFault"];

type Said = Forms["EditVerdict"];

/** Only one that was shown has a look, and only one that was accepted a draft to go on with. */
export type Verdict = (Said & { verdict: "shown"; look: Look }) | (Said & { verdict: "accepted"; draft: NewDraft }) | (Said & { verdict: "held" | "refused" });
