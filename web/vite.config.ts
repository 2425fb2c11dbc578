import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The same sources give the same bytes: names are hashes of contents, and nothing tells the time.
export default defineConfig({
  plugins: [react()],
  base: "./",
  build: {
    outDir: "../src/midflight/_web",
    emptyOutDir: true,
    target: "es2022",
    cssTarget: ["chrome123", "firefox121", "safari17.5"],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  worker: { format: "es" },
  server: { proxy: { "/v1": "http://127.0.0.1:8000" } },
  test: { environment: "node", include: ["tests/**/*.test.{ts,tsx}"] },
});
