import { beforeEach, describe, expect, it } from "vitest";
import { type Draft, Drafts } from "../src/pages/edit/drafts";

class MemoryStorage implements Storage {
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

describe("drafts", () => {
  let lasting: MemoryStorage;
  let tab: MemoryStorage;
  const page = (ofTab: Storage = tab): Drafts => new Drafts("demo", lasting, ofTab);

  beforeEach(() => {
    lasting = new MemoryStorage();
    tab = new MemoryStorage();
  });

  it("are restored after each reload of their tab", () => {
    const first = page();
    expect(first.takeUp()).toBeUndefined();
    first.keep(draft("mine"));
    expect(page().takeUp()?.text).toBe("mine");
    expect(page().takeUp()?.text).toBe("mine");
    expect(lasting.length).toBe(1);
  });

  it("are listed in another tab, newest first", () => {
    for (const [at, text] of ["old", "new"].entries()) {
      const one = page(new MemoryStorage());
      one.takeUp();
      one.keep(draft(text, at));
    }
    const other = page(new MemoryStorage());
    expect(other.takeUp()).toBeUndefined();
    expect(other.others().map((one) => one.draft.text)).toEqual(["new", "old"]);
    other.discard(other.others()[0]?.id ?? "");
    expect(other.others().map((one) => one.draft.text)).toEqual(["old"]);
  });

  it("are separate for each tab, including a duplicated one", () => {
    const first = page();
    first.takeUp();
    first.keep(draft("mine"));
    const copied = new MemoryStorage();
    for (let index = 0; index < tab.length; index += 1) copied.setItem(tab.key(index) ?? "", tab.getItem(tab.key(index) ?? "") ?? "");
    const copy = page(copied);
    expect(copy.takeUp()?.text).toBe("mine");
    copy.keep(draft("the copy's"));
    first.keep(draft("mine, later"));
    expect(page().takeUp()?.text).toBe("mine, later");
    expect(copy.others().map((one) => one.draft.text)).toEqual(["mine, later"]);
  });

  it("belong to one plan", () => {
    const one = page();
    one.takeUp();
    one.keep(draft("mine"));
    expect(new Drafts("other", lasting, new MemoryStorage()).others()).toEqual([]);
  });

  it("are set aside when the user resets the text", () => {
    const one = page();
    one.takeUp();
    one.setAside(draft("before"));
    one.drop();
    expect(one.others().map((left) => left.draft.text)).toEqual(["before"]);
  });

  it("report a full storage, and ignore what they cannot read", () => {
    lasting = new MemoryStorage(10);
    expect(page().keep(draft("mine"))).toBe(false);
    lasting = new MemoryStorage();
    lasting.setItem("planloop.draft.demo.x", "{");
    lasting.setItem("planloop.draft.demo.y", '{"text": 1}');
    expect(page(new MemoryStorage()).others()).toEqual([]);
  });
});
