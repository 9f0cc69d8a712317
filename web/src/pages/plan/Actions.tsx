// The actions on a task, or the reason why the page is read-only.

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
