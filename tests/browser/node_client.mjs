// tus-js-client in Node: one upload, told what to do by one JSON argument and then by lines on its input.
// It says what happens in lines of JSON: progress, paused, terminated, success, error.
import { createReadStream } from "node:fs"
import { createRequire } from "node:module"
import { createInterface } from "node:readline"
import { Readable } from "node:stream"

const tus = createRequire(import.meta.url)("tus-js-client")
const given = JSON.parse(process.argv[2])

const say = (event, more = {}) => process.stdout.write(JSON.stringify({ event, ...more }) + "\n")
const leave = (code) => process.stdout.write("", () => process.exit(code))

const options = {
  endpoint: given.endpoint,
  headers: { Authorization: `Bearer ${given.token}` },
  metadata: { filename: "upload.pdf", filetype: "application/pdf" },
  retryDelays: given.retryDelays ?? [50, 100, 200, 400, 800, 1600, 3200, 3200, 3200, 3200],
  chunkSize: given.chunkSize ?? Infinity,
  parallelUploads: given.parallelUploads ?? 1,
  uploadDataDuringCreation: given.uploadDataDuringCreation ?? false,
  overridePatchMethod: given.overridePatchMethod ?? false,
  uploadLengthDeferred: given.deferred ?? false,
  storeFingerprintForResuming: given.storage != null,
  urlStorage: given.storage ? new tus.FileUrlStorage(given.storage) : undefined,
  onProgress: (sent, total) => say("progress", { sent, total }),
  onChunkComplete: (size, accepted) => say("chunk", { accepted }),
  onSuccess: () => {
    say("success", { url: upload.url })
    leave(0)
  },
  onError: (error) => {
    const answer = error.originalResponse
    say("error", { message: String(error), status: answer?.getStatus(), body: answer?.getBody() })
    leave(1)
  },
}
if (options.urlStorage === undefined) delete options.urlStorage

const source = given.deferred ? Readable.from(createReadStream(given.file)) : createReadStream(given.file)
const upload = new tus.Upload(source, options)

createInterface({ input: process.stdin }).on("line", async (line) => {
  if (line === "pause") await upload.abort().then(() => say("paused", { url: upload.url }))
  if (line === "resume") upload.start()
  if (line === "terminate") {
    await upload.abort(true).then(() => say("terminated", { url: upload.url }), (error) => say("error", { message: String(error) }))
    leave(0)
  }
})

if (given.resume) {
  const previous = await upload.findPreviousUploads()
  say("found", { number: previous.length })
  if (previous.length) upload.resumeFromPreviousUpload(previous[0])
}
upload.start()
