// Follows the log over a websocket: delivers every record once and in order, and reconnects after a lost connection.

import { isLinkRevoked, tailAddress } from "../api";
import { token } from "../session";
import type { LogRecord } from "./record";

const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 5_000;
/** Close code: the log was deleted, restored or recreated. */
const OTHER_LOG = 4409;

/** Close code: the server no longer accepts the token. */
const REVOKED = 1008;

export type Line = "connecting" | "live" | "lost" | "revoked";

export interface Listener {
  /** The newest revision that was received. */
  rev(): number;
  /** The id of the log that the revision belongs to. */
  log(): string;
  /** Loads the plan as it is now and drops everything else. */
  reload(): Promise<void>;
  records(found: LogRecord[]): void;
  line(state: Line): void;
}

/** Follows the log until the returned function is called. */
export function follow(listener: Listener): () => void {
  let isOver = false;
  let waitMs = FIRST_WAIT_MS;
  let socket: WebSocket | undefined;
  let timer = 0;

  const connect = (): void => {
    listener.line("connecting");
    const own = new WebSocket(tailAddress(listener.rev(), listener.log()), ["planloop.v1", `token.${token}`]);
    socket = own;
    let wasOpen = false;
    own.onopen = () => {
      wasOpen = true;
      waitMs = FIRST_WAIT_MS;
      listener.line("live");
    };
    own.onmessage = (event: MessageEvent<string>) => {
      const frame = JSON.parse(event.data) as { records: LogRecord[] };
      // After a reconnection the server may send records again: skip those.
      listener.records(frame.records.filter((record) => record.rev > listener.rev()));
    };
    own.onclose = (event: CloseEvent) => {
      if (isOver || socket !== own) return;
      if (event.code === REVOKED) {
        listener.line("revoked");
        return;
      }
      listener.line("lost");
      // Browsers do not say why a connection was refused: the link may have been revoked while plan serve was down.
      wait(event.code === OTHER_LOG ? load : wasOpen ? connect : checkLink);
    };
  };

  const checkLink = (): void => {
    void isLinkRevoked().then((isRevoked) => {
      if (isOver) return;
      if (isRevoked) listener.line("revoked");
      else connect();
    });
  };

  const load = (): void => {
    listener.reload().then(
      () => {
        if (!isOver) connect();
      },
      () => {
        if (!isOver) wait(load);
      },
    );
  };

  const wait = (step: () => void): void => {
    timer = window.setTimeout(step, waitMs);
    waitMs = Math.min(LONGEST_WAIT_MS, waitMs * 2);
  };

  connect();
  return () => {
    isOver = true;
    window.clearTimeout(timer);
    socket?.close();
  };
}
