// A held edit, an agent's request, a call that needs approval, a changed tool description, or a tool server's question.

import { useState } from "preact/hooks";
import { post } from "../../api";
import type { components } from "../../api-types";
import { Does, Fields } from "../../parts/Changes";
import { heldOrDone, type Verdict } from "../../parts/verdict";
import { Long, Who } from "../agents/pieces";
import { Answer } from "./Answer";
import { Card } from "./Card";
import { contentOf, type Question, QuestionForm } from "./QuestionForm";

type Item = components["schemas"]["WaitingApproval"];

const BADGES: Record<Item["form"], string> = { patch: "edit", call: "call", request: "request", tool: "tool", input: "question" };

export function ApprovalCard({ item }: { item: Item }) {
  const questions = (item.questions ?? []) as unknown as Question[];
  const [given, setGiven] = useState<Record<string, string | boolean>>({});
  const approve = async (reason: string): Promise<string> => {
    const content = questions.some((one) => one.schema) ? contentOf(questions, given) : undefined;
    return heldOrDone(await post<Verdict>("approve", { address: item.address, reason, ...(content === undefined ? {} : { content }) }), "approved");
  };
  const reject = async (reason: string): Promise<string> => `rejected, rev ${(await post<{ rev: number }>("reject", { address: item.address, reason })).rev}`;
  return (
    <Card address={item.address} badge={BADGES[item.form]} title={item.what}>
      <p>
        <span class="quiet">Requested by</span> <Who address={item.by} />
        {item.why && (
          <>
            <span class="quiet">:</span> {item.why}
          </>
        )}
        {!item.is_for_person && <span class="badge">sent to an agent; you can answer too</span>}
      </p>
      {item.reason && <p>“{item.reason}”</p>}
      {item.form === "call" ? (
        <pre tabIndex={0}>{JSON.stringify(item.arguments, null, 2)}</pre>
      ) : item.form === "request" ? (
        <div class="card-text">
          <Long text={item.facts.filter(([label]) => label === "asks for" || label === "").map(([, value]) => value).join("\n")} />
        </div>
      ) : item.form === "tool" ? (
        <dl class="facts">
          {item.facts.map(([label, value], at) => [<dt key={`${at}.`}>{label}</dt>, <dd key={at}>{value}</dd>])}
        </dl>
      ) : null}
      <Does does={item.does} left={item.does_left} summary={item.summary} />
      {(item.fields ?? []).length > 0 && (
        <details open={item.does.length === 0}>
          <summary>Changed fields</summary>
          <Fields fields={item.fields ?? []} left={item.fields_left} whole={`plan get ${item.address} -o json`} />
        </details>
      )}
      <Answer
        about={item.address}
        choices={[
          { label: questions.length > 0 ? "Answer" : "Approve", tone: "main", needsFields: questions.length > 0, step: approve },
          { label: "Reject", tone: "grave", step: reject },
        ]}
      >
        {questions.map((one) => (
          <QuestionForm key={one.id} question={one} given={given} onInput={(name, value) => setGiven((all) => ({ ...all, [name]: value }))} />
        ))}
      </Answer>
    </Card>
  );
}
