// Two agents that want the same files: both sides, and how it may go on.

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

const BECAUSE: Record<string, string> = { wait: "one has waited too long", deadlock: "they waited in a ring", contest: "one of them asked for it" };

export function ConflictCard({ item }: { item: Conflict }) {
  return (
    <Card
      address={item.address}
      badge={item.state}
      title={
        <>
          <Who address={item.wants} /> wants {item.paths.join(", ")} of <Who address={item.holds} />
        </>
      }
    >
      <p class="quiet">
        since <Ago at={item.since} plain />, because {BECAUSE[item.because] ?? item.because}
        {item.before && (
          <>
            {" · before "}
            {item.before === "a person" ? "a person" : <Who address={item.before} />}
          </>
        )}
        {item.raised > 0 && ` · ${plural(item.raised, "time")} without an answer`}
      </p>
      {item.text && (
        <div class="card-wish">
          <Long text={item.text} mono />
        </div>
      )}
      {item.ruling && (
        <p>
          <strong>Ruled {item.ruling.how}</strong> by {item.ruling.by}: {item.ruling.means}
          {item.ruling.plan && ` “${item.ruling.plan}”`}
        </p>
      )}
      <Ways item={item} />
    </Card>
  );
}

function Ways({ item }: { item: Conflict }) {
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
      reason="What both are told"
      choices={[
        {
          words: item.ruling ? "Overrule" : "Rule",
          tone: "main",
          step: async (words) => heldOrDone(await post<Verdict>("rule", { conflict: item.address, how, for: about, plan: words }), "ruled"),
        },
      ]}
    >
      <fieldset class="ways-of">
        <legend>How it goes on</legend>
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
          about{" "}
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

/** A line for a list: where it is ruled on is the page of approvals. */
export function ConflictLine({ item }: { item: Conflict }) {
  return (
    <>
      <a href={`/approvals/${item.address}`}>{item.address}</a>: <a href={linkTo(item.wants)}>{item.wants}</a> wants {item.paths.join(", ")} of{" "}
      <a href={linkTo(item.holds)}>{item.holds}</a>
    </>
  );
}
