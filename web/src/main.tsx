import { render } from "preact";
import { get, refusedOf } from "./api";
import { watchOwner } from "./log/owner";
import { plan } from "./log/plan";
import { Problem } from "./parts/Problem";
import { reloadOnce } from "./reload";
import { listen } from "./routes";
import { hasPlan, session, type Session } from "./session";
import { preload, Shell } from "./Shell";
import { refetchStylesheets } from "./stylesheets";
import { drawLegibly } from "./words/legible";

async function start(at: HTMLElement): Promise<void> {
  preload();
  try {
    session.value = await get<Session>("/session");
    if (hasPlan()) await plan.load();
  } catch (error) {
    render(<Problem error={refusedOf(error)} />, at);
    return;
  }
  listen();
  if (hasPlan()) {
    plan.listen();
    watchOwner();
  }
  render(<Shell />, at);
}

refetchStylesheets();
drawLegibly();
const at = document.getElementById("page");
if (at !== null) void start(at);

// If the server does not answer, the page stays and shows the error where the part would be (Boundary).
addEventListener("vite:preloadError", () => void reloadOnce().catch(() => undefined));
