// The plan as a text: its faults as one types, what the edit would do, conflicts to choose in, and then apply.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { plan } from "../../log/plan";
import { Problem } from "../../parts/Problem";
import { session } from "../../session";
import { ApplyForm } from "./ApplyForm";
import { Clashes } from "./Clashes";
import { namesIn, type Schema } from "./completion";
import { Editing } from "./editing";
import { Editor } from "./editor";
import { Faults } from "./Faults";
import { FileNews } from "./FileNews";
import { Left } from "./Left";
import { Others } from "./Others";
import { Effects } from "./Effects";
import type { Span } from "./said";
import schemaAddress from "../../../../schemas/planloop/schemas/json/plan.schema.json?url";
import "./edit.css";

let editing: Editing | undefined; // Outlives the page: who looks elsewhere and comes back finds the text as it was.
const schema = signal<Schema | undefined>(undefined);

async function fetchSchema(): Promise<void> {
  if (schema.value === undefined) schema.value = (await (await fetch(schemaAddress)).json()) as Schema;
}

export default function EditPage(_: { rest: string }) {
  const isReadOnly = session.value.right === "read";
  editing ??= new Editing();
  const edit = editing;
  const holder = useRef<HTMLDivElement>(null);
  const editor = useRef<Editor | undefined>(undefined);

  useEffect(() => {
    if (holder.current === null) return;
    const made = new Editor(holder.current, {
      schema: () => schema.peek(),
      names: () => namesIn(plan.object(`plan/${session.peek().plan}`).peek()?.spec ?? {}),
      typed: (text) => edit.typed(text),
      isReadOnly: () => isReadOnly || !edit.isReady.peek(),
    });
    editor.current = made;
    void fetchSchema().catch(() => undefined); // Without it nothing is offered; all else works.
    if (!edit.isReady.peek()) void edit.open();
    const forget = [
      edit.given.subscribe(() => {
        if (edit.isReady.peek()) made.give(edit.text, edit.format.peek());
      }),
      edit.look.subscribe((look) => made.mark(look?.faults ?? [])),
    ];
    return () => {
      for (const stop of forget) stop();
      made.destroy();
    };
  }, []);

  const show = (span: Span): void => editor.current?.show(span);
  const look = edit.look.value;
  return (
    <div class="edit">
      <div class="edit-text">
        <div class="toolbar">
          <h1>Edit</h1>
          <Standing edit={edit} />
          {edit.isTouched.value && (
            <button type="button" onClick={() => void edit.begin()} disabled={edit.asking.value !== "no"}>
              Begin again with the live plan
            </button>
          )}
        </div>
        {edit.why.value && (
          <p class="hint">
            This is the live plan in plain form, not your file's text: {edit.why.value}.
          </p>
        )}
        <div class="edit-editor" ref={holder} />
      </div>
      <div class="edit-side">
        <Left edit={edit} />
        {edit.blind.value && <Problem error={edit.blind.value} />}
        {edit.problem.value && <Problem error={edit.problem.value} />}
        {look && <Faults look={look} show={show} />}
        {look && <Clashes edit={edit} look={look} show={show} />}
        {look?.is_sound && look.change_count > 0 && <Effects look={look} />}
        {look && <Others edit={edit} look={look} />}
        <FileNews file={edit.file.value} />
        {isReadOnly ? <p class="quiet">This link may only look.</p> : <ApplyForm edit={edit} />}
      </div>
    </div>
  );
}

/** How the text stands to the live plan, in a line that is read out when it changes. */
function Standing({ edit }: { edit: Editing }) {
  return (
    <span class="quiet" role="status">
      {standing(edit)}
      {!edit.isKept.value && " The browser has no room to keep this text over a reload."}
    </span>
  );
}

function standing(edit: Editing): string {
  const look = edit.look.value;
  if (!edit.isReady.value) return edit.blind.value === null ? "…" : "";
  if (!edit.isTouched.value) return "The text says what is live.";
  if (plan.line.value === "lost" || plan.line.value === "dead") return "The connection is lost. Your text is kept here.";
  if (look === null) return edit.blind.value === null ? "Looking at it …" : "";
  if (!look.is_sound) return "The text has faults. What runs goes on as it was.";
  if (look.change_count === 0) return "The text says what is live; its comments and layout are only here.";
  const count = look.change_count === 1 ? "1 change" : `${look.change_count} changes`;
  return `${count}, not applied.`;
}
