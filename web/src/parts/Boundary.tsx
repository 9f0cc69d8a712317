import { Component, type ComponentChildren } from "preact";
import { Refused } from "../api";
import { Problem } from "./Problem";

interface Props {
  /** Loads the failed part again. */
  again: () => void;
  children: ComponentChildren;
}

/** Shows an error of its children in their place, so that the rest of the page stays. */
export class Boundary extends Component<Props, { error: unknown }> {
  override state = { error: undefined as unknown };

  override componentDidCatch(error: unknown): void {
    this.setState({ error });
    reportError(error); // Also print it on the console.
  }

  override render({ again, children }: Props) {
    if (this.state.error === undefined) return children;
    return (
      <>
        <Problem error={new Refused(0, `Cannot show this page: ${String(this.state.error)}`, "Check that `plan serve` is still running, then reload the page.")} />
        <button type="button" onClick={again}>
          Reload the page
        </button>
      </>
    );
  }
}
