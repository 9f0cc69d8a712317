// What an edit does: to each object, as `plan diff` says it, and to each field, with its value on both sides.

import type { components } from "../api-types";
import { hunks, lineDiff } from "../words/lines";
import "./changes.css";

export type Doing = components["schemas"]["Doing"];
export type FieldChange = components["schemas"]["FieldChange"];

const WORDS: Record<string, string> = { "+": "added", "-": "removed", "~": "changed", ">": "moved" };
const CONTEXT = 2;

/** Deletions first, each object with what is done to it and why; of many, how many more there are, and the sum of all. */
export function Does({ does, left = 0, summary = "" }: { does: readonly Doing[]; left?: number; summary?: string }) {
  if (does.length === 0) return null;
  return (
    <>
      <table class="does">
        <caption class="unseen">What it does to each object</caption>
        <thead class="unseen">
          <tr>
            <th scope="col">Object</th>
            <th scope="col">Action</th>
            <th scope="col">Words</th>
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

/** Each field with what it was and what it is, or would be; of many, how many more there are and which command `whole` has them. */
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
          and {left} more: {whole} has them
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
    <span class="sign" data-sign={sign} title={WORDS[sign]}>
      <span aria-hidden="true">{sign}</span>
      <span class="unseen">{WORDS[sign] ?? ""}</span>
    </span>
  );
}
