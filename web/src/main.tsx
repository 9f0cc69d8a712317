import { render } from "preact";
import { loadAnewOnce } from "./anew";
import { get, refusedOf } from "./api";
import { watchOwner } from "./log/owner";
import { plan } from "./log/plan";
import { fetchLostLooks } from "./looks";
import { Problem } from "./parts/Problem";
import { listen } from "./routes";
import { hasPlan, session, type Session } from "./session";
import { preload, Shell } from "./Shell";
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

fetchLostLooks();
drawLegibly();
const at = document.getElementById("page");
if (at !== null) void start(at);

// Without an answer of the server nothing is done here: the page says in its place what could not be fetched.
addEventListener("vite:preloadError", () => void loadAnewOnce().catch(() => undefined));
