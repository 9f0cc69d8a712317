// A websocket with JSON frames that reconnects until it is closed. Each connection starts with the current state, so
// that a slow or disconnected client misses nothing.

import { session, token } from "./session";

const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 5_000;
const OVER = 1000;
const REVOKED = 1008; // The link was revoked; the connection to the log shows that for the whole page.

export type Line = "connecting" | "live" | "lost" | "over";

export interface Wire {
  /** Sends `message` as JSON; returns whether a connection is open. */
  send(message: unknown): boolean;
  close(): void;
}

interface Listener<Frame> {
  /** Relative to the plan; with a leading slash, relative to /v1. Called for each connection. */
  path: () => string;
  frame: (frame: Frame) => void;
  line: (line: Line) => void;
}

export function wire<Frame>({ path, frame, line }: Listener<Frame>): Wire {
  let socket: WebSocket | undefined;
  let isOver = false;
  let waitMs = FIRST_WAIT_MS;
  let timer = 0;

  const connect = (): void => {
    line("connecting");
    const own = new WebSocket(address(path()), ["planloop.v1", `token.${token}`]);
    socket = own;
    own.onopen = () => {
      waitMs = FIRST_WAIT_MS;
      if (isOver) own.close();
      else line("live");
    };
    own.onmessage = (event: MessageEvent<string>) => {
      if (!isOver) frame(JSON.parse(event.data) as Frame);
    };
    own.onclose = (event) => {
      if (isOver || socket !== own) return;
      if (event.code === OVER) {
        line("over");
        return;
      }
      line("lost");
      if (event.code === REVOKED) return;
      timer = window.setTimeout(connect, waitMs);
      waitMs = Math.min(LONGEST_WAIT_MS, waitMs * 2);
    };
  };

  connect();
  return {
    send: (message) => {
      if (socket?.readyState !== WebSocket.OPEN) return false;
      socket.send(JSON.stringify(message));
      return true;
    },
    close: () => {
      isOver = true;
      window.clearTimeout(timer);
      if (socket?.readyState !== WebSocket.CONNECTING) socket?.close(); // Closing earlier logs a browser error: onopen closes it.
    },
  };
}

function address(path: string): string {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const place = path.startsWith("/") ? `/v1${path}` : `/v1/plans/${encodeURIComponent(session.value.plan)}/${path}`;
  return `${scheme}://${location.host}${place}`;
}
