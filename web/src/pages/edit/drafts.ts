// Text that is not applied yet, kept in the browser: over a reload, a closed tab and a server that is gone.
//
// Every page that edits keeps its own under an id of its own, so that two tabs never write over one another. A page
// that is loaded anew takes up what its tab had; what other tabs left is offered.

import { freshId } from "../../fresh";
import type { Base, Format, Side } from "./said";

export interface Draft {
  text: string;
  format: Format;
  base: Base;
  blob: string;
  chosen: Record<string, Side>;
  /** When it was last written, in milliseconds since 1970. */
  at: number;
}

const OWN = "planloop.draft";

export class Drafts {
  private readonly prefix: string;
  private readonly id = freshId();

  constructor(
    plan: string,
    private readonly lasting: Storage = localStorage,
    private readonly ofTab: Storage = sessionStorage,
  ) {
    this.prefix = `${OWN}.${plan}.`;
  }

  /** What this tab had before it was loaded; from here on it is kept under this page's id. */
  takeUp(): Draft | undefined {
    const before = this.ofTab.getItem(this.prefix);
    this.ofTab.setItem(this.prefix, this.id);
    if (before === null || before === this.id) return this.read(this.id);
    const found = this.read(before);
    // A tab that was made as a copy of this one takes it up, too: the one that lives on writes its own again.
    if (found !== undefined && this.keep(found)) this.lasting.removeItem(this.prefix + before);
    return found;
  }

  /** Keeps `draft`; false when the browser has no room for it. */
  keep(draft: Draft): boolean {
    return this.write(this.id, draft);
  }

  /** Keeps `draft` among what was left, for a person who begins anew; false when the browser has no room for it. */
  setAside(draft: Draft): boolean {
    return this.write(freshId(), draft);
  }

  /** Nothing of this page is to be kept any more. */
  drop(): void {
    this.lasting.removeItem(this.prefix + this.id);
  }

  /** What other tabs have or left, and what was set aside; the newest first. */
  others(): { id: string; draft: Draft }[] {
    const found: { id: string; draft: Draft }[] = [];
    for (let index = 0; index < this.lasting.length; index += 1) {
      const key = this.lasting.key(index) ?? "";
      const id = key.slice(this.prefix.length);
      const draft = key.startsWith(this.prefix) && id !== this.id ? this.read(id) : undefined;
      if (draft !== undefined) found.push({ id, draft });
    }
    return found.sort((one, other) => other.draft.at - one.draft.at);
  }

  /** Throws away what was left. */
  forget(id: string): void {
    this.lasting.removeItem(this.prefix + id);
  }

  private write(id: string, draft: Draft): boolean {
    try {
      this.lasting.setItem(this.prefix + id, JSON.stringify(draft));
      return true;
    } catch {
      return false;
    }
  }

  private read(id: string): Draft | undefined {
    try {
      const found = JSON.parse(this.lasting.getItem(this.prefix + id) ?? "null") as Draft | null;
      return found !== null && typeof found.text === "string" && typeof found.base?.rev === "number" ? found : undefined;
    } catch {
      return undefined;
    }
  }
}
