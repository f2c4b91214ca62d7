// @google-cloud/storage, told what to do by one JSON argument; says what came of it in a line of JSON.
// Given: endpoint, bucket, name, token, file, do. `resume` sends the rest of the file to the session `uri`;
// `save` writes the object unless it is there, at once or in pieces of `chunk` bytes; `read` says what the bucket
// knows of it; `tour` saves `name`/chunked and `name`/simple, is refused the first again, reads it and lists both.
import { createReadStream, readFileSync } from "node:fs"
import { createHash } from "node:crypto"
import { pipeline } from "node:stream/promises"
import { Storage } from "@google-cloud/storage"

const given = JSON.parse(process.argv[2])
// With an endpoint of one's own this client sends no token with every request: it is added to each.
const storage = new Storage({ apiEndpoint: given.endpoint, projectId: "penstock" })
storage.interceptors.push({
  request: (options) => ({ ...options, headers: { ...options.headers, Authorization: `Bearer ${given.token}` } }),
})
const bucket = storage.bucket(given.bucket)

async function resume() {
  let statuses = []
  const out = bucket.file(given.name).createWriteStream({
    uri: given.uri,
    resumable: true,
    chunkSize: given.chunk,
    validation: false,
    metadata: { contentType: "video/mp4" },
  })
  out.on("response", (answer) => statuses.push(answer.status))
  await pipeline(createReadStream(given.file), out)
  return { statuses }
}

async function save(name = given.name, chunk = given.chunk) {
  await bucket.file(name).save(readFileSync(given.file), {
    resumable: Boolean(chunk),
    chunkSize: chunk || undefined,
    metadata: { contentType: "video/mp4" },
    preconditionOpts: { ifGenerationMatch: 0 },
  })
  return {}
}

async function read(name = given.name) {
  const [facts] = await bucket.file(name).getMetadata()
  const [content] = await bucket.file(name).download()
  return {
    size: facts.size, type: facts.contentType, md5Hash: facts.md5Hash,
    md5: createHash("md5").update(content).digest("hex"),
  }
}

async function tour() {
  const [chunked, simple] = [`${given.name}/chunked`, `${given.name}/simple`]
  await save(chunked, given.chunk)
  await save(simple, 0)
  const refused = await save(chunked, given.chunk).then(() => 200, (error) => Number(error.code ?? error.status))
  const [files] = await bucket.getFiles({ prefix: `${given.name}/` })
  return { ...(await read(chunked)), refused, names: files.map((file) => file.name.slice(given.name.length + 1)) }
}

let said
try {
  said = await { resume, save, read, tour }[given.do]()
} catch (error) {
  said = { error: Number(error.code ?? error.status) || String(error), message: String(error.message) }
}
process.stdout.write(JSON.stringify(said) + "\n", () => process.exit(0))
