// @google-cloud/storage, told what to do by one JSON argument; says what came of it in a line of JSON.
// Given: endpoint, bucket, name, token, file, do. `resume` sends the rest of the file to the session `uri`;
// `save` writes the object at once, unless it is there; `read` says what the bucket knows of it.
import { createReadStream, readFileSync } from "node:fs"
import { createHash } from "node:crypto"
import { pipeline } from "node:stream/promises"
import { Storage } from "@google-cloud/storage"
import { OAuth2Client } from "google-auth-library"

const given = JSON.parse(process.argv[2])
const authClient = new OAuth2Client()
authClient.setCredentials({ access_token: given.token })
const storage = new Storage({
  apiEndpoint: given.endpoint,
  projectId: "penstock",
  authClient,
  useAuthWithCustomEndpoint: true,
})
const file = storage.bucket(given.bucket).file(given.name)

async function resume() {
  let statuses = []
  const out = file.createWriteStream({
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

async function save() {
  await file.save(readFileSync(given.file), {
    resumable: false,
    metadata: { contentType: "video/mp4" },
    preconditionOpts: { ifGenerationMatch: 0 },
  })
  return {}
}

async function read() {
  const [facts] = await file.getMetadata()
  const [content] = await file.download()
  return { size: facts.size, md5Hash: facts.md5Hash, md5: createHash("md5").update(content).digest("hex") }
}

let said
try {
  said = await { resume, save, read }[given.do]()
} catch (error) {
  said = { error: Number(error.code ?? error.status) || String(error), message: String(error.message) }
}
process.stdout.write(JSON.stringify(said) + "\n", () => process.exit(0))
