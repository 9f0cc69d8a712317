import { readOnlyReason } from "./may";

/** The reason why the page is read-only; nothing if it is not. */
export function WhyNot() {
  const why = readOnlyReason();
  return why ? <p class="quiet why-not">{why}</p> : null;
}
