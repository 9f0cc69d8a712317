// Whether an owner runs the plan. A killed owner writes no record, so the page polls the server for it.

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

/** The command that resumes an unfinished plan that has no owner; empty if it has one or is finished. */
export const resumeCommand = computed(() => {
  const found = status.value;
  const state = String(root.value?.status.state ?? "");
  if (found === null || found.pid !== null || ENDED.includes(state)) return "";
  return `plan apply ${found.file?.split("/").pop() ?? "FILE"}`;
});

/** Polls the owner's status while the page is visible. Ignores errors: the connection to the log shows them. */
export function watchOwner(): void {
  const ask = (): void => {
    if (!document.hidden) get<Status>("status").then((found) => (status.value = found), () => undefined);
  };
  ask();
  setInterval(ask, PACE_MS);
  document.addEventListener("visibilitychange", ask);
}
