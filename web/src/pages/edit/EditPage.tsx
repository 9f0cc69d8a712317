// The plan as text: errors while typing, the effect of the edit, conflicts to resolve, and the form that applies it.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { plan } from "../../log/plan";
import { READ_ONLY_LINK } from "../../parts/may";
import { Problem } from "../../parts/Problem";
import { session } from "../../session";
import { ApplyForm } from "./ApplyForm";
import { namesIn, type Schema } from "./completion";
import { Conflicts } from "./Conflicts";
import { Editing } from "./editing";
import { Editor } from "./editor";
import { Effects } from "./Effects";
import { Errors } from "./Errors";
import { FileNews } from "./FileNews";
import { LeftDrafts } from "./LeftDrafts";
import { Others } from "./Others";
import type { Span } from "./api";
import schemaAddress from "../../../../schemas/planloop/schemas/json/plan.schema.json?url";
import "./edit.css";

let editing: Editing | undefined; // Kept while another page is open, so that the text is not lost.
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
    const created = new Editor(holder.current, {
      schema: () => schema.peek(),
      names: () => namesIn(plan.object(`plan/${session.peek().plan}`).peek()?.spec ?? {}),
      typed: (text) => edit.typed(text),
      isReadOnly: () => isReadOnly || !edit.isReady.peek(),
    });
    editor.current = created;
    void fetchSchema().catch(() => undefined); // Without the schema, only completion and tooltips are missing.
    if (!edit.isReady.peek()) void edit.open();
    const forget = [
      edit.replaced.subscribe(() => {
        if (edit.isReady.peek()) created.setText(edit.text, edit.format.peek());
      }),
      edit.look.subscribe((look) => created.mark(look?.faults ?? [])),
    ];
    return () => {
      for (const stop of forget) stop();
      created.destroy();
    };
  }, []);

  const show = (span: Span): void => editor.current?.show(span);
  const look = edit.look.value;
  return (
    <div class="edit">
      <div class="edit-text">
        <div class="toolbar">
          <h1>Edit</h1>
          <EditState edit={edit} />
          {edit.isTouched.value && (
            <button type="button" onClick={() => void edit.begin()} disabled={edit.asking.value !== "no"}>
              Reset to the live plan
            </button>
          )}
        </div>
        {edit.why.value && (
          <p class="hint">
            This text is generated from the live plan, not taken from your file: {edit.why.value}.
          </p>
        )}
        <div class="edit-editor" ref={holder} />
      </div>
      <div class="edit-side">
        <LeftDrafts edit={edit} />
        {edit.checkError.value && <Problem error={edit.checkError.value} />}
        {edit.problem.value && <Problem error={edit.problem.value} />}
        {look && <Errors look={look} show={show} />}
        {look && <Conflicts edit={edit} look={look} show={show} />}
        {look?.is_sound && look.change_count > 0 && <Effects look={look} />}
        {look && <Others edit={edit} look={look} />}
        <FileNews file={edit.file.value} />
        {isReadOnly ? <p class="quiet">{READ_ONLY_LINK}</p> : <ApplyForm edit={edit} />}
      </div>
    </div>
  );
}

/** The text compared with the live plan, as a line that screen readers announce. */
function EditState({ edit }: { edit: Editing }) {
  return (
    <span class="quiet" role="status">
      {stateWords(edit)}
      {!edit.isKept.value && " The browser's storage is full: a reload loses this text."}
    </span>
  );
}

function stateWords(edit: Editing): string {
  const look = edit.look.value;
  if (!edit.isReady.value) return edit.checkError.value === null ? "…" : "";
  if (!edit.isTouched.value) return "No unapplied changes.";
  if (plan.line.value === "lost" || plan.line.value === "revoked") return "Connection lost. Your text is kept in this browser.";
  if (look === null) return edit.checkError.value === null ? "Checking …" : "";
  if (!look.is_sound) return "The text has errors. The live plan is unchanged.";
  if (look.change_count === 0) return "No changes to apply. Comments and layout may differ.";
  const count = look.change_count === 1 ? "1 change" : `${look.change_count} changes`;
  return `${count}, not applied.`;
}
