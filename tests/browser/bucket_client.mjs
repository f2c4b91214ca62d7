// @google-cloud/storage in Node: sends a file in chunks and at once, meets a 412, reads back; says one line of JSON.
import { createHash } from "node:crypto"
import { createRequire } from "node:module"
import { readFileSync } from "node:fs"

const { Storage } = createRequire(import.meta.url)("@google-cloud/storage")
const given = JSON.parse(process.argv[2])

// With an endpoint of one's own this client sends no token by itself: it is added to each request.
const storage = new Storage({ apiEndpoint: given.endpoint, projectId: "penstock" })
storage.interceptors.push({
  request: (options) => ({ ...options, headers: { ...options.headers, Authorization: `Bearer ${given.token}` } }),
})
const bucket = storage.bucket(given.bucket)
const content = readFileSync(given.file)
const md5 = (bytes) => createHash("md5").update(bytes).digest("base64")

const chunked = bucket.file(`${given.name}/chunked`)
await chunked.save(content, {
  resumable: true, chunkSize: 256 * 1024, contentType: "video/mp4", preconditionOpts: { ifGenerationMatch: 0 },
})
const simple = bucket.file(`${given.name}/simple`)
await simple.save(content, { resumable: false, contentType: "video/mp4" })
const refused = await chunked
  .save(content, { resumable: true, preconditionOpts: { ifGenerationMatch: 0 } })
  .then(() => 200, (error) => Number(error.code))
const [metadata] = await chunked.getMetadata()
const [back] = await chunked.download()
const [files] = await bucket.getFiles({ prefix: `${given.name}/` })
console.log(JSON.stringify({
  refused, size: metadata.size, type: metadata.contentType, md5: metadata.md5Hash, read: md5(back), expected: md5(content),
  names: files.map((file) => file.name.slice(given.name.length + 1)),
}))
