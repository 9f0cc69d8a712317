// A line diff of two texts.

export interface DiffLine {
  sign: " " | "+" | "-";
  text: string;
}

const EXACT_MAX = 400; // Lines of either side: above that, only the common start and end count as unchanged.

/** Returns the lines of `before` and `after`, common lines once. */
export function lineDiff(before: string, after: string): DiffLine[] {
  const old = before.split("\n");
  const now = after.split("\n");
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail += 1;
  const middle = between(old.slice(head, old.length - tail), now.slice(head, now.length - tail));
  const same = (text: string): DiffLine => ({ sign: " ", text });
  return [...old.slice(0, head).map(same), ...middle, ...old.slice(old.length - tail).map(same)];
}

/** Splits the result of `lineDiff` into hunks with `around` unchanged lines at each change. */
export function hunks(lines: readonly DiffLine[], around: number): DiffLine[][] {
  const near = lines.map((_, at) => lines.slice(Math.max(0, at - around), at + around + 1).some((line) => line.sign !== " "));
  const found: DiffLine[][] = [];
  lines.forEach((line, at) => {
    if (!near[at]) return;
    if (at === 0 || !near[at - 1]) found.push([]);
    found.at(-1)?.push(line);
  });
  return found;
}

function between(old: string[], now: string[]): DiffLine[] {
  const removed = old.map((text): DiffLine => ({ sign: "-", text }));
  const added = now.map((text): DiffLine => ({ sign: "+", text }));
  if (old.length === 0 || now.length === 0 || old.length > EXACT_MAX || now.length > EXACT_MAX) return [...removed, ...added];
  // Lengths of the longest common subsequences, counted from the end.
  const longest = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  const at = (i: number, j: number): number => longest[i]?.[j] ?? 0;
  for (let i = old.length - 1; i >= 0; i -= 1) {
    const row = longest[i] as Uint16Array;
    for (let j = now.length - 1; j >= 0; j -= 1) row[j] = old[i] === now[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  }
  const found: DiffLine[] = [];
  let i = 0;
  let j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      found.push({ sign: " ", text: old[i] as string });
      i += 1;
      j += 1;
    } else if (i < old.length && (j >= now.length || at(i + 1, j) >= at(i, j + 1))) {
      found.push({ sign: "-", text: old[i] as string });
      i += 1;
    } else {
      found.push({ sign: "+", text: now[j] as string });
      j += 1;
    }
  }
  return found;
}
