import { beforeEach, describe, expect, it } from "vitest";
import { type Draft, Drafts } from "../src/pages/edit/drafts";

class Shelf implements Storage {
  private readonly kept = new Map<string, string>();
  constructor(private readonly room = Number.POSITIVE_INFINITY) {}
  get length() {
    return this.kept.size;
  }
  key(index: number) {
    return [...this.kept.keys()][index] ?? null;
  }
  getItem(name: string) {
    return this.kept.get(name) ?? null;
  }
  setItem(name: string, value: string) {
    if (value.length > this.room) throw new DOMException("no room", "QuotaExceededError");
    this.kept.set(name, value);
  }
  removeItem(name: string) {
    this.kept.delete(name);
  }
  clear() {
    this.kept.clear();
  }
}

const draft = (text: string, at = 0): Draft => ({ text, format: "yaml", base: { uid: "u", rev: 2 }, blob: "", chosen: {}, at });

describe("what is kept of text that is not applied", () => {
  let lasting: Shelf;
  let tab: Shelf;
  const page = (ofTab: Storage = tab): Drafts => new Drafts("demo", lasting, ofTab);

  beforeEach(() => {
    lasting = new Shelf();
    tab = new Shelf();
  });

  it("comes back when its tab is loaded anew, as often as it is", () => {
    const first = page();
    expect(first.takeUp()).toBeUndefined();
    first.keep(draft("mine"));
    expect(page().takeUp()?.text).toBe("mine");
    expect(page().takeUp()?.text).toBe("mine");
    expect(lasting.length).toBe(1);
  });

  it("is offered to another tab when its own is gone, the newest first", () => {
    for (const [at, text] of ["old", "new"].entries()) {
      const one = page(new Shelf());
      one.takeUp();
      one.keep(draft(text, at));
    }
    const other = page(new Shelf());
    expect(other.takeUp()).toBeUndefined();
    expect(other.others().map((one) => one.draft.text)).toEqual(["new", "old"]);
    other.forget(other.others()[0]?.id ?? "");
    expect(other.others().map((one) => one.draft.text)).toEqual(["old"]);
  });

  it("is of each tab on its own, also of one that was made as a copy of another", () => {
    const first = page();
    first.takeUp();
    first.keep(draft("mine"));
    const copied = new Shelf();
    for (let index = 0; index < tab.length; index += 1) copied.setItem(tab.key(index) ?? "", tab.getItem(tab.key(index) ?? "") ?? "");
    const copy = page(copied);
    expect(copy.takeUp()?.text).toBe("mine");
    copy.keep(draft("the copy's"));
    first.keep(draft("mine, later"));
    expect(page().takeUp()?.text).toBe("mine, later");
    expect(copy.others().map((one) => one.draft.text)).toEqual(["mine, later"]);
  });

  it("is of one plan only", () => {
    const one = page();
    one.takeUp();
    one.keep(draft("mine"));
    expect(new Drafts("other", lasting, new Shelf()).others()).toEqual([]);
  });

  it("is set aside when its person begins anew", () => {
    const one = page();
    one.takeUp();
    one.setAside(draft("before"));
    one.drop();
    expect(one.others().map((left) => left.draft.text)).toEqual(["before"]);
  });

  it("says when there is no room, and passes over what it cannot read", () => {
    lasting = new Shelf(10);
    expect(page().keep(draft("mine"))).toBe(false);
    lasting = new Shelf();
    lasting.setItem("planloop.draft.demo.x", "{");
    lasting.setItem("planloop.draft.demo.y", '{"text": 1}');
    expect(page(new Shelf()).others()).toEqual([]);
  });
});
