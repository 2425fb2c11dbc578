// Built with the Vite of `web/`: see `make agui-uis`.
const CLIENT_1 = "?client-1";
const CARRIERS = /^\.|^@assistant-ui\/react-ag-ui$/; // what imports the client

// A page that loads its script with `?client-1` gets @ag-ui/client 1.0.0, which npm installs under
// another name: the script and what it imports of the carriers are bundled a second time for it.
const client1 = {
  name: "client-1",
  enforce: "pre",
  async resolveId(wanted, importer, options) {
    if (!importer?.endsWith(CLIENT_1)) return null;
    if (wanted === "@ag-ui/client") return this.resolve("ag-ui-client-1", importer, options);
    if (!CARRIERS.test(wanted)) return null;
    const found = await this.resolve(wanted, importer, { ...options, skipSelf: true });
    return found && { ...found, id: found.id + CLIENT_1 };
  },
};

const pages = ["copilotkit", "assistant", "assistant-client-1"];

export default {
  root: import.meta.dirname + "/pages",
  base: "./",
  plugins: [client1],
  build: {
    outDir: "../built",
    emptyOutDir: true,
    minify: false,
    reportCompressedSize: false,
    modulePreload: false,
    target: "es2022",
    rolldownOptions: {
      input: pages.map((name) => `${import.meta.dirname}/pages/${name}.html`),
      checks: { moduleLevelDirective: false }, // "use client" is for servers that render React
    },
  },
  define: { "process.env.NODE_ENV": '"production"' },
  logLevel: "warn",
};
