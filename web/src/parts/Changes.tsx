// The effect of an edit: on each object, as `plan diff` prints it, and on each field, with its value before and after.

import type { components } from "../api-types";
import { hunks, lineDiff } from "../words/lines";
import "./changes.css";

export type Doing = components["schemas"]["Doing"];
export type FieldChange = components["schemas"]["FieldChange"];

const SIGN_WORDS: Record<string, string> = { "+": "added", "-": "removed", "~": "changed", ">": "moved" };
const CONTEXT = 2;

/** A table of objects with their actions, deletions first. `left` more are not shown; `summary` counts all of them. */
export function Does({ does, left = 0, summary = "" }: { does: readonly Doing[]; left?: number; summary?: string }) {
  if (does.length === 0) return null;
  return (
    <>
      <table class="does">
        <caption class="unseen">Effect on each object</caption>
        <thead class="unseen">
          <tr>
            <th scope="col">Object</th>
            <th scope="col">Action</th>
            <th scope="col">Details</th>
          </tr>
        </thead>
        <tbody>
          {does.map((one, at) => (
            <tr key={at} data-sign={one.sign}>
              <td class="mono">
                <Sign sign={one.sign} /> {one.name}
              </td>
              <td>{one.does}</td>
              <td>{one.words}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {left > 0 && <p class="quiet">and {left} more</p>}
      {summary && <p class="quiet">{summary}</p>}
    </>
  );
}

/** A list of fields with their values before and after. The command `whole` prints the `left` that are not shown. */
export function Fields({ fields, left, whole }: { fields: readonly FieldChange[]; left: number; whole: string }) {
  if (fields.length === 0) return null;
  return (
    <>
      <dl class="fields">
        {fields.map((one, at) => (
          <div key={at} class="field">
            <dt class="mono">
              <Sign sign={one.sign} /> {one.path}
            </dt>
            <dd>
              <Sides before={one.before} after={one.after} />
            </dd>
          </div>
        ))}
      </dl>
      {left > 0 && (
        <p class="quiet">
          and {left} more: <code>{whole}</code>
        </p>
      )}
    </>
  );
}

function Sides({ before, after }: { before: string | null; after: string | null }) {
  const stretches = hunks(lineDiff(before ?? "", after ?? "").filter((line) => line.text !== "" || (before !== null && after !== null)), CONTEXT);
  return (
    <pre class="sides">
      {stretches.map((lines, at) => (
        <span key={at}>
          {at > 0 && <span class="gap">⋯{"\n"}</span>}
          {lines.map((line, index) =>
            line.sign === "+" ? (
              <ins key={index}>{`+ ${line.text}\n`}</ins>
            ) : line.sign === "-" ? (
              <del key={index}>{`- ${line.text}\n`}</del>
            ) : (
              <span key={index}>{`  ${line.text}\n`}</span>
            ),
          )}
        </span>
      ))}
    </pre>
  );
}

function Sign({ sign }: { sign: string }) {
  return (
    <span class="sign" data-sign={sign} title={SIGN_WORDS[sign]}>
      <span aria-hidden="true">{sign}</span>
      <span class="unseen">{SIGN_WORDS[sign] ?? ""}</span>
    </span>
  );
}
