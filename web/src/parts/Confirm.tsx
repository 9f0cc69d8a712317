import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Refused, refusedOf } from "../api";
import { Problem } from "./Problem";

interface Props {
  /** The question, such as `Cancel task/backend?`. */
  title: string;
  /** The label of the button that confirms: a verb, never `OK`. */
  action: string;
  /** Whether the action loses something. */
  grave?: boolean;
  /** The effect of the action, and its input fields. */
  children?: ComponentChildren;
  /** Performs the action. If it throws, the dialog shows the error and stays open. */
  onConfirm: () => Promise<unknown>;
  /** Called once when the dialog is to be removed. Not called after it was removed. */
  onClose: () => void;
}

/** A dialog that asks before an action. Escape cancels, Enter in a field confirms; the focus then returns. */
export function Confirm({ title, action, grave = false, children, onConfirm, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [error, setError] = useState<Refused | null>(null);
  const [isBusy, setBusy] = useState(false);
  const isOver = useRef(false);
  const close = (): void => {
    if (isOver.current) return;
    isOver.current = true;
    onClose();
  };
  // In a layout effect, before the user can press another button and open a second dialog.
  useLayoutEffect(() => {
    const before = document.activeElement;
    const element = dialog.current;
    element?.showModal();
    return () => {
      // A late answer of the server or a late `close` event must not affect the next dialog.
      isOver.current = true;
      element?.close(); // Elements behind an open dialog cannot take the focus.
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);

  const confirm = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await onConfirm();
      close();
    } catch (refusal) {
      setError(refusedOf(refusal));
      setBusy(false);
    }
  };

  // `cancel` comes before the dialog closes; `close` may come after the user has pressed the next button. Keys stay in
  // the dialog: otherwise Escape would also close the panel of the task.
  return (
    <dialog ref={dialog} aria-label={title} onCancel={close} onClose={close} onKeyDown={(event) => event.stopPropagation()}>
      <form onSubmit={confirm}>
        <h2>{title}</h2>
        {children}
        {error && <Problem error={error} />}
        <div class="buttons">
          <button type="button" onClick={close}>
            Back
          </button>
          <button type="submit" class={grave ? "grave" : "main"} disabled={isBusy}>
            {isBusy ? "…" : action}
          </button>
        </div>
      </form>
    </dialog>
  );
}
