import { post } from "../../api";
import type { components } from "../../api-types";
import { heldOrDone, type Verdict } from "../../parts/verdict";
import { Answer } from "./Answer";
import { Card } from "./Card";

type Hook = components["schemas"]["WaitingHook"];

/** A hook that stays until a user ends it. */
export function HookCard({ item }: { item: Hook }) {
  return (
    <Card address={item.address} badge="hook" title={item.address.replace(/^hook\//, "")}>
      <dl class="facts">
        {item.facts.map(([label, value], at) => [<dt key={`${at}.`}>{label}</dt>, <dd key={at}>{value}</dd>])}
      </dl>
      <Answer about={item.address} choices={[{ label: "End the hook", step: async (reason) => heldOrDone(await post<Verdict>("approve", { address: item.address, reason }), "ended") }]} />
    </Card>
  );
}
