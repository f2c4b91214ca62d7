// grpc-js, as apps and servers in JavaScript use it: reads the .proto file itself and makes the calls it is told.
// Given: address, proto, metadata, calls ([method, request] each). Says a line of JSON for each call.
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const given = JSON.parse(process.argv[2]);
const definition = loadSync(given.proto, { keepCase: true, longs: String, defaults: true });
const { UploadService } = grpc.loadPackageDefinition(definition).video.v1;
const client = new UploadService(given.address, grpc.credentials.createInsecure());
const metadata = new grpc.Metadata();
for (const [name, value] of Object.entries(given.metadata)) metadata.set(name, value);

for (const [method, request] of given.calls) {
  const said = await new Promise((resolve) => {
    client[method](request, metadata, { deadline: Date.now() + 20_000 }, (error, answer) => {
      if (!error) return resolve({ answer });
      const [details] = error.metadata.get("grpc-status-details-bin");
      resolve({ code: error.code, message: error.details, details: details?.toString("base64") });
    });
  });
  console.log(JSON.stringify(said));
}
client.close();
