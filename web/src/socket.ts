// A websocket that tells JSON frames, made anew for as long as somebody listens: whoever is slow or cut off misses
// nothing, since each connection begins with what there is.

import { session, token } from "./session";

const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 5_000;
const OVER = 1000;
const DEAD = 1008; // The link is: the line to the log says so for the whole page.

export type Line = "connecting" | "live" | "lost" | "over";

export interface Wire {
  /** Says something; whether there is a connection to say it on. */
  say(words: unknown): boolean;
  close(): void;
}

interface Ears<Frame> {
  /** Below the plan; with a leading slash below /v1 itself. Asked for anew at each connection. */
  path: () => string;
  frame: (frame: Frame) => void;
  line: (line: Line) => void;
}

export function wire<Frame>({ path, frame, line }: Ears<Frame>): Wire {
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
      if (event.code === DEAD) return;
      timer = window.setTimeout(connect, waitMs);
      waitMs = Math.min(LONGEST_WAIT_MS, waitMs * 2);
    };
  };

  connect();
  return {
    say: (words) => {
      if (socket?.readyState !== WebSocket.OPEN) return false;
      socket.send(JSON.stringify(words));
      return true;
    },
    close: () => {
      isOver = true;
      window.clearTimeout(timer);
      if (socket?.readyState !== WebSocket.CONNECTING) socket?.close(); // Else the browser complains: it closes when it opens.
    },
  };
}

function address(path: string): string {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const place = path.startsWith("/") ? `/v1${path}` : `/v1/plans/${encodeURIComponent(session.value.plan)}/${path}`;
  return `${scheme}://${location.host}${place}`;
}
