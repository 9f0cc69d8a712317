/** While the server folds what was asked for: of a large run it takes seconds, the first time. */
export function Reading() {
  return (
    <p class="quiet" role="status">
      It is being read…
    </p>
  );
}
