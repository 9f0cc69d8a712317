import { now } from "../clock";
import { duration } from "../words/amounts";

/** The time since `at` (seconds since 1970), updated every second: `38 s ago`. Its tooltip has the date. */
export function Ago({ at, plain = false }: { at: number; plain?: boolean }) {
  const whole = new Date(at * 1000);
  const seconds = Math.max(0, Math.floor(now.value - at));
  return (
    <time dateTime={whole.toISOString()} title={whole.toLocaleString()}>
      {duration(seconds < 10 ? 0 : seconds).replace("0.0 s", "moments")}
      {!plain && " ago"}
    </time>
  );
}

/** The time from `from` until `until`, or until now. */
export function Took({ from, until }: { from: number; until?: number | undefined }) {
  const seconds = (until ?? now.value) - from;
  return <span class="number">{duration(until === undefined ? Math.max(0, Math.round(seconds)) : seconds).replace(".0 s", " s")}</span>;
}
