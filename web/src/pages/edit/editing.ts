// The state of an edit: the text, the server's last check of it, and the chosen and applied values.
//
// The text is replaced only on request (apply, merge, reset) or while the user has not changed it. Requests are sent one
// at a time, and an answer counts only for the text that it checked.

import { batch, computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { get, post, type Refused, refusedOf } from "../../api";
import { plan } from "../../log/plan";
import { session } from "../../session";
import { type Draft, Drafts } from "./drafts";
import { type EditText, type Format, hasOpenConflict, type Look, type NewDraft, type Pulled, type Side, type Verdict } from "./api";

const CHECK_MS = 250; // After the last key press, for the errors.
const PREVIEW_MS = 900; // The same for the preview, which costs the owner more time.
const KEEP_MS = 300;

export type Asking = "no" | "checking" | "applying" | "merging" | "writing";

export class Editing {
  readonly format: Signal<Format> = signal("yaml");
  readonly file: Signal<string> = signal("");
  /** Why the text is not that of the plan file. */
  readonly why: Signal<string> = signal("");
  /** Whether the user changed the text. */
  readonly isTouched: Signal<boolean> = signal(false);
  readonly isReady: Signal<boolean> = signal(false);
  /** Whether the text is stored and survives a reload. */
  readonly isKept: Signal<boolean> = signal(true);
  /** The server's check of the text; null until it has arrived. */
  readonly look: Signal<Look | null> = signal(null);
  /** Whether `look` belongs to the current text. */
  readonly isCurrent: Signal<boolean> = signal(false);
  readonly asking: Signal<Asking> = signal("no");
  /** Why the last action failed. */
  readonly problem: Signal<Refused | null> = signal(null);
  /** Why the text cannot be checked. */
  readonly checkError: Signal<Refused | null> = signal(null);
  readonly verdict: Signal<Verdict | null> = signal(null);
  /** The last action, in a line. */
  readonly news: Signal<string> = signal("");
  readonly left: Signal<{ id: string; draft: Draft }[]> = signal([]);
  /** Counts replacements of the text by something other than typing. */
  readonly replaced: Signal<number> = signal(0);
  readonly chosen: Signal<Record<string, Side>> = signal({});
  /** Whether the text can be applied: its check is current, it has no errors, and each conflict is resolved. */
  readonly mayApply: ReadonlySignal<boolean>;

  text = "";
  private base: EditText["base"] = { uid: "", rev: 0 };
  private blob = "";
  private readonly drafts = new Drafts(session.value.plan);
  private timers: { check?: number; preview?: number; keep?: number } = {};
  /** Counts changes of the text, its base and the choices. */
  private version = 0;
  private isOut = false;
  private next: "no" | "look" | "preview" = "no";

  constructor() {
    this.mayApply = computed(() => {
      const look = this.look.value;
      if (look === null || !this.isCurrent.value || this.asking.value !== "no") return false;
      return look.is_sound && look.change_count > 0 && look.preview !== null && !hasOpenConflict(look);
    });
    effect(() => {
      if (plan.past.value === null && plan.object(`plan/${session.value.plan}`).value !== undefined) void this.afterPlanChange();
    });
    effect(() => {
      if (plan.line.value !== "live" || this.checkError.peek() === null) return;
      if (this.isTouched.peek()) this.checkSoon();
      else void this.follow();
    });
    addEventListener("pagehide", () => this.keep());
  }

  /** Starts with this tab's draft, or with the live plan. */
  async open(): Promise<void> {
    if (session.value.right === "read") return this.begin(); // Read-only: there are no drafts.
    const draft = this.drafts.takeUp();
    this.left.value = this.drafts.others();
    if (draft !== undefined) {
      this.restore(draft);
      await this.describeFile();
      return;
    }
    await this.begin();
  }

  /** Resets to the live plan's text. The user's text becomes a draft; if it cannot be stored, the text stays. */
  async begin(): Promise<void> {
    await this.ask("checking", async () => {
      const live = await get<EditText>("edit");
      if (this.isTouched.peek() && this.look.peek()?.change_count !== 0) {
        this.isKept.value = this.drafts.setAside(this.draft());
        if (!this.isKept.peek()) return;
      }
      this.takeLive(live);
    });
  }

  /** Updates an unchanged text to the live plan. If the user types before the answer arrives, the typed text stays. */
  private async follow(): Promise<void> {
    await this.ask("checking", async () => {
      const live = await get<EditText>("edit");
      if (!this.isTouched.peek()) this.takeLive(live);
    });
  }

  private takeLive(live: EditText): void {
    batch(() => {
      this.setFile(live);
      this.replace(live, live.format);
      this.untouched();
      this.left.value = this.drafts.others();
    });
  }

  /** Restores a draft. */
  takeLeft(id: string, draft: Draft): void {
    this.restore(draft);
    this.keep();
    this.drafts.discard(id);
    this.left.value = this.drafts.others();
  }

  discardLeft(id: string): void {
    this.drafts.discard(id);
    this.left.value = this.drafts.others();
  }

  typed(text: string): void {
    this.text = text;
    this.version += 1;
    batch(() => {
      this.isTouched.value = true;
      this.verdict.value = null;
      this.problem.value = null;
      this.news.value = "";
    });
    this.keepSoon();
    this.checkSoon();
  }

  choose(id: string, side: Side): void {
    this.chosen.value = { ...this.chosen.value, [id]: side };
    this.version += 1;
    this.isCurrent.value = false;
    this.keepSoon();
    void this.check(true);
  }

  async apply(reason: string, isIntoFile: boolean): Promise<void> {
    await this.ask("applying", async () => {
      const shown = this.look.value?.edit ?? "";
      const sent = this.text;
      const verdict = await post<Verdict>("edit/apply", { ...this.body(), shown, reason });
      this.verdict.value = verdict;
      if (verdict.verdict === "shown") {
        this.look.value = verdict.look;
        void this.check(true);
      }
      if (verdict.verdict !== "accepted") return;
      this.news.value = verdict.changed ? `Applied as rev ${verdict.rev}.` : "No change.";
      await this.settle(sent, verdict.draft);
      if (isIntoFile) await this.write();
    });
  }

  /** Merges the changes of others into the text. */
  async merge(): Promise<void> {
    await this.ask("merging", async () => {
      const sent = this.text;
      const draft = await post<NewDraft>("edit/merge", this.body());
      if (sent !== this.text) return; // The text changed during the request: keep it.
      batch(() => {
        this.replace(draft, this.format.value);
        this.news.value = `Merged the changes by others into your text, which is now based on rev ${draft.base.rev}.`;
      });
      this.keep();
      void this.check(true);
    });
  }

  /** Writes the live plan to the plan file, with this text if it has the same content. */
  async pull(): Promise<void> {
    await this.ask("writing", () => this.write());
  }

  private async write(): Promise<void> {
    const sent = this.text;
    const body = { text: sent, format: this.format.value, base: this.base, blob: this.blob };
    const pulled = await post<Pulled>("edit/pull", body);
    batch(() => {
      if (pulled.blob !== "") this.blob = pulled.blob;
      this.news.value = `${this.news.value} Wrote the live plan to ${pulled.file}.`.trim();
      if (pulled.is_text && sent === this.text) this.untouched();
    });
  }

  private async settle(sent: string, draft: NewDraft): Promise<void> {
    if (this.text !== sent) {
      this.checkSoon(); // The text changed during the request. Both sides now have the applied change: keep the old base.
      return;
    }
    batch(() => {
      this.replace(draft, this.format.value);
      this.chosen.value = {};
    });
    const live = await get<EditText>("edit");
    if (live.text === draft.text && this.text === draft.text) {
      this.untouched();
      this.setFile(live);
    } else {
      this.keep();
      void this.check(true);
    }
  }

  /** Checks again, or follows, if the live plan has changed. */
  private async afterPlanChange(): Promise<void> {
    if (!this.isReady.peek()) return;
    const found = plan.object(`plan/${session.peek().plan}`).peek();
    const known = this.look.peek()?.base ?? this.base;
    const isNewer = Number(found?.status.document_rev ?? 0) > known.rev || found?.uid !== known.uid;
    if (found === undefined || !isNewer || this.asking.peek() !== "no") return; // A running request comes here at its end.
    if (this.isTouched.peek()) await this.check(true);
    else await this.follow();
  }

  private checkSoon(): void {
    this.isCurrent.value = false;
    clearTimeout(this.timers.check);
    clearTimeout(this.timers.preview);
    this.timers.check = window.setTimeout(() => void this.check(false), CHECK_MS);
    this.timers.preview = window.setTimeout(() => void this.check(true), PREVIEW_MS);
  }

  /** Checks the text, one request at a time: changes during a request cause one more after it. */
  private async check(isPreviewed: boolean): Promise<void> {
    if (session.value.right === "read") return;
    if (this.isOut) {
      this.next = isPreviewed || this.next === "preview" ? "preview" : "look";
      return;
    }
    this.isOut = true;
    const asked = this.version;
    try {
      const look = await post<Look>("edit/look", { ...this.body(), preview: isPreviewed });
      if (asked === this.version) this.take(look, isPreviewed);
    } catch (error) {
      if (asked === this.version) this.checkError.value = refusedOf(error);
    }
    this.isOut = false;
    const next = this.next;
    this.next = "no";
    if (next !== "no") await this.check(next === "preview");
  }

  private take(look: Look, isPreviewed: boolean): void {
    batch(() => {
      const before = this.look.peek();
      // Until the new preview arrives, keep the one of the same edit.
      const preview = look.preview ?? (before?.edit === look.edit ? before.preview : null);
      this.look.value = { ...look, preview };
      this.isCurrent.value = isPreviewed || preview !== null;
      this.checkError.value = null;
    });
  }

  private async ask<T>(what: Asking, question: () => Promise<T>): Promise<T | undefined> {
    if (this.asking.peek() !== "no") return undefined;
    const problem = what === "checking" ? this.checkError : this.problem;
    batch(() => {
      this.asking.value = what;
      problem.value = null;
    });
    try {
      return await question();
    } catch (error) {
      problem.value = refusedOf(error);
      return undefined;
    } finally {
      this.asking.value = "no";
      if (this.checkError.peek() === null) void this.afterPlanChange();
    }
  }

  private body(): Record<string, unknown> {
    return { text: this.text, format: this.format.value, base: this.base, blob: this.blob, chosen: this.chosen.value };
  }

  private restore(draft: Draft): void {
    batch(() => {
      this.chosen.value = draft.chosen;
      this.replace(draft, draft.format);
      this.isTouched.value = true;
    });
    void this.check(true);
  }

  private async describeFile(): Promise<void> {
    const found = await this.ask("checking", () => get<EditText>("edit"));
    if (found !== undefined) this.setFile(found);
  }

  private setFile(found: EditText): void {
    this.file.value = found.file;
    this.why.value = found.why;
  }

  private replace(draft: NewDraft, format: Format): void {
    this.version += 1;
    this.text = draft.text;
    this.base = draft.base;
    this.blob = draft.blob;
    this.format.value = format;
    this.look.value = null;
    this.isCurrent.value = false;
    this.isReady.value = true;
    this.replaced.value += 1;
  }

  private untouched(): void {
    clearTimeout(this.timers.check);
    clearTimeout(this.timers.preview);
    clearTimeout(this.timers.keep);
    batch(() => {
      this.isTouched.value = false;
      this.look.value = null;
      this.chosen.value = {};
    });
    this.version += 1;
    this.drafts.drop();
  }

  private keepSoon(): void {
    clearTimeout(this.timers.keep);
    this.timers.keep = window.setTimeout(() => this.keep(), KEEP_MS);
  }

  private keep(): void {
    if (this.isTouched.peek()) this.isKept.value = this.drafts.keep(this.draft());
  }

  private draft(): Draft {
    const { text, base, blob } = this;
    return { text, base, blob, format: this.format.peek(), chosen: this.chosen.peek(), at: Date.now() };
  }
}
