// Two agents that want the same files: both sides, and the possible decisions.

import { useId, useState } from "preact/hooks";
import { post } from "../../api";
import type { components } from "../../api-types";
import { Ago } from "../../parts/Ago";
import { heldOrDone, type Verdict } from "../../parts/verdict";
import { linkTo } from "../../routes";
import { plural } from "../../words/amounts";
import { Long, Who } from "../agents/pieces";
import { Answer } from "./Answer";
import { Card } from "./Card";

export type Conflict = components["schemas"]["OpenConflict"];

const CAUSES: Record<string, string> = { wait: "an agent waited too long", deadlock: "deadlock", contest: "an agent contested the lock" };

export function ConflictCard({ item }: { item: Conflict }) {
  return (
    <Card
      address={item.address}
      badge={item.state}
      title={
        <>
          <Who address={item.wants} /> wants {item.paths.join(", ")}, held by <Who address={item.holds} />
        </>
      }
    >
      <p class="quiet">
        Opened <Ago at={item.since} />: {CAUSES[item.because] ?? item.because}
        {item.before && (
          <>
            {" · resolver: "}
            {item.before === "a person" ? "a user" : <Who address={item.before} />}
          </>
        )}
        {item.raised > 0 && ` · escalated ${plural(item.raised, "time")}`}
      </p>
      {item.text && (
        <div class="card-text">
          <Long text={item.text} mono />
        </div>
      )}
      {item.ruling && (
        <p>
          <strong>Decision: {item.ruling.how}</strong> by {item.ruling.by}: {item.ruling.means}
          {item.ruling.plan && ` “${item.ruling.plan}”`}
        </p>
      )}
      <Decision item={item} />
    </Card>
  );
}

function Decision({ item }: { item: Conflict }) {
  const usual = item.ways.filter((one) => one.usual);
  const [how, setHow] = useState(usual[0]?.how ?? "release");
  const [who, setWho] = useState("");
  const name = useId();
  const parties = [item.wants, item.holds];
  const about = who || (item.ways.find((one) => one.how === how && one.usual)?.for ?? item.wants);
  const chosen = item.ways.find((one) => one.how === how && one.for === about);
  return (
    <Answer
      about={item.address}
      reason="Message to both agents"
      choices={[
        {
          label: item.ruling ? "Change the decision" : "Resolve",
          tone: "main",
          step: async (message) => heldOrDone(await post<Verdict>("rule", { conflict: item.address, how, for: about, plan: message }), "resolved"),
        },
      ]}
    >
      <fieldset class="ways-of">
        <legend>Decision</legend>
        {usual.map((one) => (
          <label key={one.how}>
            <input
              type="radio"
              name={name}
              checked={how === one.how}
              onChange={() => {
                setHow(one.how);
                setWho("");
              }}
            />{" "}
            <strong>{one.how}</strong> <span>{how === one.how ? chosen?.means : one.means}</span>
          </label>
        ))}
        <label class="ways-who">
          for{" "}
          <select value={about} onChange={(event) => setWho(event.currentTarget.value)}>
            {parties.map((one) => (
              <option key={one} value={one}>
                {one}
              </option>
            ))}
          </select>
        </label>
      </fieldset>
    </Answer>
  );
}

/** A conflict as one line, with a link to the Approvals page, where it is resolved. */
export function ConflictLine({ item }: { item: Conflict }) {
  return (
    <>
      <a href={`/approvals/${item.address}`}>{item.address}</a>: <a href={linkTo(item.wants)}>{item.wants}</a> wants {item.paths.join(", ")}, held by{" "}
      <a href={linkTo(item.holds)}>{item.holds}</a>
    </>
  );
}
