// API types of suites, runs and cases, under the names that these pages use.

import type { components } from "../../api-types";

type Schemas = components["schemas"];

export type Blob = Schemas["Seen"];
export type Call = Schemas["BenchCall"];
export type CaseTold = Schemas["CaseTold"];
export type Checked = Schemas["Checked"];
export type Column = Schemas["Column"];
export type Comparison = Schemas["Comparison"];
export type EntryTold = Schemas["EntryTold"];
export type Interval = Schemas["Column"]["interval"];
export type Pair = Schemas["PairTold"];
export type Report = Schemas["Report"];
export type RunEvent = Schemas["RunEvent"];
export type RunFrame = Schemas["RunFrame"];
export type RunLine = Schemas["RunLine"];
export type RunTold = Schemas["RunTold"];
export type Runs = Schemas["Runs"];
export type Section = Schemas["Section"];
export type Sheet = Schemas["Sheet"];
export type SuiteCase = Schemas["SuiteCase"];
export type Suites = Schemas["Suites"];
export type SuiteTold = Schemas["SuiteTold"];
export type Written = Schemas["WrittenCheck"];
