/** A placeholder while the server reads a run: a large one takes seconds, the first time. */
export function Reading() {
  return (
    <p class="quiet" role="status">
      Loading …
    </p>
  );
}
