import type { Picture } from "./graph";
import { laidOut } from "./layout";

self.onmessage = (event: MessageEvent<{ job: number; picture: Picture }>) => {
  const { job, picture } = event.data;
  self.postMessage({ job, laid: laidOut(picture) });
};
