import { expect, it } from "vitest";
import { type Known, listed, type Page, withNewest, withOlder } from "../src/pages/history/revisions";

/** The page of the revisions from `newest` down to `oldest`. */
function page(newest: number, oldest: number): Page {
  const revisions = Array.from({ length: newest - oldest + 1 }, (_, at) => newest - at).map((rev) => ({
    rev,
    at: 0,
    author: "human:cli",
    did: "patched",
    what: "",
    reason: "",
    cause: null,
    is_document: true,
  }));
  return { rev: newest, revisions, earlier: oldest > 1 ? oldest : null, authors: [] };
}

const revs = (known: Known): number[] => listed(known).map((one) => one.rev);
const down = (newest: number, oldest: number): number[] => page(newest, oldest).revisions.map((one) => one.rev);

it("loses no revision between the newest page and an older one", () => {
  let known = withNewest(undefined, page(100, 51));
  known = withOlder(known, 51, page(50, 11));
  known = withNewest(known, page(103, 54));
  expect(revs(known)).toEqual(down(103, 11));
  expect(known.earlier).toBe(11);
});

it("starts again if more revisions arrived than fit a page", () => {
  const known = withNewest(withNewest(undefined, page(100, 51)), page(200, 151));
  expect(revs(known)).toEqual(down(200, 151));
  expect(known.earlier).toBe(151);
});

it("ends at the oldest revision, also when new ones arrive", () => {
  let known = withOlder(withNewest(undefined, page(60, 11)), 11, page(10, 1));
  known = withNewest(known, page(61, 12));
  expect(revs(known)).toEqual(down(61, 1));
  expect(known.earlier).toBeNull();
});

it("ignores an older page that was already added or belongs to a list that started again", () => {
  const first = withNewest(undefined, page(100, 51));
  const known = withOlder(first, 51, page(50, 31));
  expect(withOlder(known, 51, page(50, 31))).toBe(known);
  const restarted = withNewest(first, page(200, 151));
  expect(withOlder(restarted, 51, page(50, 31))).toBe(restarted);
});
