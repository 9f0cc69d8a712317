// A call that began and whose outcome nobody saw: only a person can say what became of it.

import { post } from "../../api";
import type { components } from "../../api-types";
import { Ago } from "../../parts/Ago";
import { Who } from "../agents/pieces";
import { Answer } from "./Answer";
import { Card } from "./Card";

type Doubt = components["schemas"]["Doubt"];

export function DoubtCard({ item }: { item: Doubt }) {
  const settle = (happened: boolean) => async (reason: string) => {
    const answer = await post<{ rev: number }>("settle", { address: item.address, happened, reason });
    return `${happened ? "taken as done" : "made again"}, rev ${answer.rev}`;
  };
  return (
    <Card address={item.address} badge="in doubt" title={<code>{item.what}</code>}>
      <p>
        <Who address={item.owner} /> <span class="quiet">began it{item.started_at ? <> <Ago at={item.started_at} /></> : null}, and nobody saw how it ended. Its class is {item.effect}.</span> {item.why}
      </p>
      <pre tabIndex={0}>{JSON.stringify(item.arguments, null, 2)}</pre>
      <Answer
        about={item.address}
        choices={[
          { words: "It happened", tone: "main", step: settle(true) },
          { words: "It did not: make it again", step: settle(false) },
        ]}
      />
    </Card>
  );
}
