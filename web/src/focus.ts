/** Whether the focused element was removed, so that the document has the focus. */
export function isFocusLost(): boolean {
  return document.activeElement === null || document.activeElement === document.body;
}
