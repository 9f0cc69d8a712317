import { post } from "../../api";
import type { components } from "../../api-types";
import { heldOrDone, type Verdict } from "../../parts/verdict";
import { Answer } from "./Answer";
import { Card } from "./Card";

type Hook = components["schemas"]["WaitingHook"];

/** A hook that is there until a person says that it may go. */
export function HookCard({ item }: { item: Hook }) {
  return (
    <Card address={item.address} badge="hook" title={item.address.replace(/^hook\//, "")}>
      <dl class="facts">
        {item.facts.map(([label, said], at) => [<dt key={`${at}.`}>{label}</dt>, <dd key={at}>{said}</dd>])}
      </dl>
      <Answer about={item.address} choices={[{ words: "Let it go", step: async (reason) => heldOrDone(await post<Verdict>("approve", { address: item.address, reason }), "it is over") }]} />
    </Card>
  );
}
