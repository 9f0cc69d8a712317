// Whether anybody runs the plan. An owner that is killed writes nothing, so it is asked for, not heard of.

import { computed, signal } from "@preact/signals";
import { get } from "../api";
import { plan } from "./plan";

const PACE_MS = 3_000;
const ENDED = ["done", "failed", "cancelled"];

interface Status {
  pid: number | null;
  file: string | null;
}

const status = signal<Status | null>(null);
const root = plan.object("task/.");

/** The command that goes on with a plan that nobody runs and that is not over; empty when there is nothing to say. */
export const goesOn = computed(() => {
  const found = status.value;
  const state = String(root.value?.status.state ?? "");
  if (found === null || found.pid !== null || ENDED.includes(state)) return "";
  return `plan apply ${found.file?.split("/").pop() ?? "FILE"}`;
});

/** Asks now and from then on, while the page is looked at. What goes wrong with it the line to the log tells. */
export function watchOwner(): void {
  const ask = (): void => {
    if (!document.hidden) get<Status>("status").then((found) => (status.value = found), () => undefined);
  };
  ask();
  setInterval(ask, PACE_MS);
  document.addEventListener("visibilitychange", ask);
}
