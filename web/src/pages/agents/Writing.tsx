// The words of a reply while the model writes them. They are in no record: the whole reply is, once it is there.

import { useEffect, useMemo, useState } from "preact/hooks";
import { plan } from "../../log/plan";
import { heard, type Said, SILENT } from "../../parts/writing";
import { wire } from "../../socket";
import { map } from "../../words/objects";
import type { Item } from "./turns";

export function Writing({ agent, items }: { agent: string; items: readonly Item[] }) {
  const isModel = map(plan.object(agent).value?.spec.mind).kind === "model";
  const [said, setSaid] = useState(SILENT);
  const replied = useMemo(() => repliedTurn(items), [items]);

  useEffect(() => {
    if (!isModel) return;
    const line = wire<{ said?: Said }>({
      path: () => "tail?words=1",
      line: (state) => {
        if (state === "connecting") setSaid(SILENT);
      },
      frame: ({ said: words }) => {
        if (words?.agent === agent) setSaid((before) => heard(before, words));
      },
    });
    return () => line.close();
  }, [agent, isModel]);

  if (!said.text || said.turn <= replied) return null;
  return (
    <div class="talk-writing" aria-label="Being written">
      <div class="long">{said.text}</div>
      <span class="cursor" aria-hidden="true" />
    </div>
  );
}

/** The newest turn that has its reply: what was heard of it is in its record. */
function repliedTurn(items: readonly Item[]): number {
  let turn = 0;
  let replied = 0;
  for (const item of items) {
    if (item.kind === "turn") turn = item.turn ?? 0;
    else if (item.kind === "said" || item.kind === "call" || item.kind === "ended") replied = turn;
    else if (item.kind === "life" && item.word === "began") turn = replied = 0;
  }
  return replied;
}
