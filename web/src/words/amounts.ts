// Formats numbers as schemas/planloop/schemas/quantities.py does; a shared test compares both.

const MINUTE_S = 60;
const HOUR_S = 3600;
const DAY_S = 86400;

/** Formats seconds with at most two units: `0.4 s`, `38 s`, `1m40s`, `2h05m`, `3d04h`. */
export function duration(seconds: number): string {
  if (seconds < 0) return "0 s";
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < MINUTE_S) return `${whole} s`;
  if (whole < HOUR_S) return `${Math.floor(whole / MINUTE_S)}m${two(whole % MINUTE_S)}s`;
  if (whole < DAY_S) return `${Math.floor(whole / HOUR_S)}h${two(Math.floor((whole % HOUR_S) / MINUTE_S))}m`;
  return `${Math.floor(whole / DAY_S)}d${two(Math.floor((whole % DAY_S) / HOUR_S))}h`;
}

/** Formats dollars: `$12.30`; under a cent with two significant digits: `$0.0042`. */
export function money(usd: number): string {
  if (usd === 0 || Math.abs(usd) >= 0.01) return `$${usd.toFixed(2)}`;
  return `$${usd.toFixed(-Math.floor(Math.log10(Math.abs(usd))) + 1)}`;
}

/** Formats a count with three significant digits: `950`, `212k`, `2M`, `1.5M`. */
export function count(number: number): string {
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]] as const) {
    if (Math.abs(number) >= size) return `${Number((number / size).toPrecision(3))}${unit}`;
  }
  return String(Number(number.toPrecision(6)));
}

/** Formats a count with its noun: `1 task`, `3 tasks`. */
export function plural(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

/** Formats seconds since 1970 as the local time of day: `14:03:22`. */
export function clockTime(at: number): string {
  return new Date(at * 1000).toLocaleTimeString("en-GB");
}

function two(number: number): string {
  return String(number).padStart(2, "0");
}
