// The text of a reply while the model writes it. Only the complete reply becomes a log record.

import { useEffect, useMemo, useState } from "preact/hooks";
import { plan } from "../../log/plan";
import { NO_TEXT, type Said, withPart } from "../../parts/writing";
import { wire } from "../../socket";
import { map } from "../../words/objects";
import type { Item } from "./turns";

export function Writing({ agent, items }: { agent: string; items: readonly Item[] }) {
  const isModel = map(plan.object(agent).value?.spec.mind).kind === "model";
  const [writing, setWriting] = useState(NO_TEXT);
  const replied = useMemo(() => repliedTurn(items), [items]);

  useEffect(() => {
    if (!isModel) return;
    const line = wire<{ said?: Said }>({
      path: () => "tail?words=1",
      line: (state) => {
        if (state === "connecting") setWriting(NO_TEXT);
      },
      frame: ({ said: part }) => {
        if (part?.agent === agent) setWriting((before) => withPart(before, part));
      },
    });
    return () => line.close();
  }, [agent, isModel]);

  if (!writing.text || writing.turn <= replied) return null;
  return (
    <div class="talk-writing" aria-label="Being written">
      <div class="long">{writing.text}</div>
      <span class="cursor" aria-hidden="true" />
    </div>
  );
}

/** Returns the newest turn whose reply is complete, and so in its record. */
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
