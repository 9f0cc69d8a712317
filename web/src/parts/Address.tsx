import { plan } from "../log/plan";
import { linkTo } from "../routes";
import { stateOf } from "../words/objects";
import { Status } from "./Status";

/** A link to an object, optionally with its state. Plain text if the object does not exist. */
export function Address({ address, state = false }: { address: string; state?: boolean }) {
  const item = plan.object(address).value;
  if (item === undefined) return <span class="mono">{address}</span>;
  return (
    <span class="address">
      <a class="mono" href={linkTo(address)}>
        {address}
      </a>
      {state && (
        <>
          {" "}
          <Status state={stateOf(item)} />
        </>
      )}
    </span>
  );
}
