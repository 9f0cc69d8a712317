// The time that the page shows ages against: now, or the time of the past revision that is shown.

import { computed, signal } from "@preact/signals";
import { plan } from "./log/plan";

const wall = signal(Date.now() / 1000);

setInterval(() => {
  if (!document.hidden) wall.value = Date.now() / 1000;
}, 1000);
document.addEventListener("visibilitychange", () => {
  wall.value = Date.now() / 1000;
});

/** Seconds since 1970, updated once a second. */
export const now = computed(() => plan.pastAt.value ?? wall.value);
