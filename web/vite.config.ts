import preact from "@preact/preset-vite";
import { defineConfig } from "vite";

// The built page is part of the Python package, so that `pip install` needs no Node.js. Nothing is inlined: the
// server's content security policy takes scripts and styles from files of its own only.
export default defineConfig({
  plugins: [preact({ devToolsEnabled: false, prefreshEnabled: false })],
  build: {
    outDir: "../server/planloop/server/page",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
  },
});
