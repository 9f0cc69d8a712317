import { whyNot } from "./may";

/** A word in the place of buttons that are not there; nothing when they are. */
export function WhyNot() {
  const why = whyNot();
  return why ? <p class="quiet why-not">{why}</p> : null;
}
