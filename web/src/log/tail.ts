// Listens to the log: every record once, in order, through as many broken connections as there are.

import { isLinkDead, tailAddress } from "../api";
import { token } from "../session";
import type { LogRecord } from "./record";

const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 5_000;
/** The server's word that the log is not the one we know: it was deleted, restored or made anew. */
const ANEW = 4409;

/** The server's word that it takes the token no more. */
const DEAD = 1008;

export type Line = "connecting" | "live" | "lost" | "dead";

export interface Listener {
  /** The revision that is known so far. */
  rev(): number;
  /** Which log that revision is of. */
  log(): string;
  /** Takes the plan as it is now, in place of all that is known. */
  anew(): Promise<void>;
  records(found: LogRecord[]): void;
  line(state: Line): void;
}

/** Listens until the returned function is called. */
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
      // What a connection says twice after it was made anew is passed over.
      listener.records(frame.records.filter((record) => record.rev > listener.rev()));
    };
    own.onclose = (event: CloseEvent) => {
      if (isOver || socket !== own) return;
      if (event.code === DEAD) {
        listener.line("dead");
        return;
      }
      listener.line("lost");
      // Why a connection is refused no browser tells: a link may have died while plan serve was not there.
      wait(event.code === ANEW ? begin : wasOpen ? connect : ask);
    };
  };

  const ask = (): void => {
    void isLinkDead().then((isDead) => {
      if (isOver) return;
      if (isDead) listener.line("dead");
      else connect();
    });
  };

  const begin = (): void => {
    listener.anew().then(
      () => {
        if (!isOver) connect();
      },
      () => {
        if (!isOver) wait(begin);
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
