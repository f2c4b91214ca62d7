// What the test page offers to whoever drives it: Uppy with its tus plugin, and tus-js-client as it is.
import Uppy from "@uppy/core"
import Tus from "@uppy/tus"
import * as tus from "tus-js-client"

const uploads = {}

// The same bytes as `content` in tests/support/browser.py makes.
const content = (size, seed) => {
  const bytes = new Uint8Array(size)
  for (let at = 0; at < size; at += 1) bytes[at] = (at * 31 + (at >> 8) * 7 + seed) & 255
  return bytes
}

const file = ({ name, size, seed }) =>
  new File([content(size, seed)], name, { type: "application/pdf", lastModified: 1_700_000_000_000 })

const settings = ({ endpoint, token, chunkSize, retryDelays }) => ({
  endpoint,
  headers: { Authorization: `Bearer ${token}` },
  chunkSize: chunkSize ?? Infinity,
  retryDelays: retryDelays ?? [50, 100, 200, 400, 800, 1600, 3200, 3200, 3200, 3200],
})

window.tests = {
  uppy(given) {
    const state = { progress: 0, done: false, error: null, url: null }
    const uppy = new Uppy({ autoProceed: false })
    uppy.use(Tus, { ...settings(given), allowedMetaFields: ["filename", "filetype"], removeFingerprintOnSuccess: true })
    uppy.on("upload-progress", (_, { bytesUploaded }) => { state.progress = bytesUploaded })
    uppy.on("upload-success", (_, answer) => Object.assign(state, { done: true, url: answer.uploadURL }))
    uppy.on("upload-error", (_, error) => { state.error = String(error) })
    const { name, size, seed } = given.file
    uppy.addFile({ name, type: "application/pdf", data: file({ name, size, seed }), meta: { filename: name, filetype: "application/pdf" } })
    uploads[given.key] = { state, uppy }
    uppy.upload()
  },
  pause: ({ key }) => { uploads[key].uppy.pauseAll() },
  resume: ({ key }) => { uploads[key].uppy.resumeAll() },
  cancel: ({ key }) => { uploads[key].uppy.cancelAll() },
  async tus(given) {
    const state = { progress: 0, done: false, error: null, url: null, found: 0 }
    const upload = new tus.Upload(file(given.file), {
      ...settings(given),
      parallelUploads: given.parallelUploads ?? 1,
      uploadDataDuringCreation: given.uploadDataDuringCreation ?? false,
      metadata: { filename: given.file.name, filetype: "application/pdf" },
      onProgress: (sent) => { state.progress = sent },
      onSuccess: () => Object.assign(state, { done: true, url: upload.url }),
      onError: (error) => { state.error = String(error) },
    })
    uploads[given.key] = { state, upload }
    const previous = await upload.findPreviousUploads()
    state.found = previous.length
    if (previous.length) upload.resumeFromPreviousUpload(previous[0])
    upload.start()
  },
  state: ({ key }) => uploads[key].state,
}
