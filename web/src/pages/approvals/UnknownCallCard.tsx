// A call with an unknown outcome: a user must decide whether it happened.

import { post } from "../../api";
import type { components } from "../../api-types";
import { Ago } from "../../parts/Ago";
import { Who } from "../agents/pieces";
import { Answer } from "./Answer";
import { Card } from "./Card";

type UnknownCall = components["schemas"]["Doubt"];

export function UnknownCallCard({ item }: { item: UnknownCall }) {
  const settle = (happened: boolean) => async (reason: string) => {
    const answer = await post<{ rev: number }>("settle", { address: item.address, happened, reason });
    return `${happened ? "marked as done" : "runs again"}, rev ${answer.rev}`;
  };
  return (
    <Card address={item.address} badge="unknown" title={<code>{item.what}</code>}>
      <p>
        <Who address={item.owner} /> <span class="quiet">started this call{item.started_at ? <> <Ago at={item.started_at} /></> : null}, and its outcome is unknown. Effect class: {item.effect}.</span> {item.why}
      </p>
      <p>Check whether the call happened. If it did, mark it as done; if not, run it again.</p>
      <pre tabIndex={0}>{JSON.stringify(item.arguments, null, 2)}</pre>
      <Answer
        about={item.address}
        choices={[
          { label: "Mark as done", tone: "main", step: settle(true) },
          { label: "Run again", step: settle(false) },
        ]}
      />
    </Card>
  );
}
