import { Component, type ComponentChildren } from "preact";
import { Refused } from "../api";
import { Problem } from "./Problem";

interface Props {
  /** Tries again what failed. */
  again: () => void;
  children: ComponentChildren;
}

/** Shows what went wrong within in its place, so that all around it stays as it is. */
export class Boundary extends Component<Props, { error: unknown }> {
  override state = { error: undefined as unknown };

  override componentDidCatch(error: unknown): void {
    this.setState({ error });
    reportError(error); // For the console, as if nobody had caught it.
  }

  override render({ again, children }: Props) {
    if (this.state.error === undefined) return children;
    return (
      <>
        <Problem error={new Refused(0, `this page cannot be shown: ${String(this.state.error)}`, "is plan serve still running?")} />
        <button type="button" onClick={again}>
          Load the page anew
        </button>
      </>
    );
  }
}
