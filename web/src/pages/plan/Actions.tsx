// What can be done about a task from here; or, where nothing may be, why not.

import type { Resource } from "../../log/record";
import { Steering } from "../../parts/Steering";
import { actsOf } from "../../parts/steers";
import { WhyNot } from "../../parts/WhyNot";

export function Actions({ item }: { item: Resource }) {
  return (
    <>
      <Steering task={item} />
      {actsOf(item).length > 0 && <WhyNot />}
    </>
  );
}
