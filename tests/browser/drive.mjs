// A headless browser that is told what to do in lines of JSON, one answer per line: open, close, call.
// The page comes from a server of its own, so that to the browser the upload server is another site.
import { createServer } from "node:http"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { build } from "esbuild"
import { chromium } from "playwright-core"

const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]

const bundle = await build({
  entryPoints: [join(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "page.js")],
  bundle: true, write: false, format: "iife", logLevel: "error", define: { "process.env.NODE_ENV": '"production"' },
})
const script = bundle.outputFiles[0].text
const server = createServer((request, answer) => {
  const [kind, body] = request.url === "/page.js"
    ? ["text/javascript", script]
    : ["text/html", '<!doctype html><meta charset="utf-8"><title>Uploads</title><script src="/page.js"></script>']
  answer.writeHead(200, { "Content-Type": kind }).end(body)
})
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve))
const home = mkdtempSync(join(tmpdir(), "penstock-browser-"))
const context = await chromium.launchPersistentContext(home, {
  executablePath: process.argv[2], args: FLAGS, ignoreDefaultArgs: ["--enable-automation"],
})
const pages = {}
const does = {
  async open({ page }) {
    pages[page] = await context.newPage()
    await pages[page].goto(`http://127.0.0.1:${server.address().port}/`)
    await pages[page].waitForFunction("window.tests !== undefined")
  },
  async close({ page }) { await pages[page].close() },
  call: ({ page, name, given }) => pages[page].evaluate(([call, value]) => window.tests[call](value), [name, given]),
}
const say = (what) => process.stdout.write(JSON.stringify(what) + "\n")

say({ ready: context.browser()?.version() ?? true })
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line)
  try {
    say({ value: (await does[command.do](command)) ?? null })
  } catch (error) {
    say({ error: String(error) })
  }
}
await context.close()
server.close()
rmSync(home, { recursive: true, force: true })
