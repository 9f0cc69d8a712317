// Where the keyboard is when what it was at goes away.

/** Whether what had the focus is gone, so that it fell to the document. */
export function isFocusLost(): boolean {
  return document.activeElement === null || document.activeElement === document.body;
}
