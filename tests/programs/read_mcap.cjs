// node read_mcap.cjs FILE...: what the public TypeScript readers find in each file, a line of JSON for each.
const { McapIndexedReader, McapStreamReader } = require("@mcap/core");
const { decompress } = require("fzstd");
const { createHash } = require("crypto");
const fs = require("fs");

const decompressHandlers = { zstd: (packed, size) => decompress(packed, new Uint8Array(Number(size))) };
const told = ({ logTime, data }, { messageEncoding }, schema) => [
  `${logTime}`, createHash("sha256").update(data).digest("hex"), messageEncoding, schema?.name ?? null,
  schema ? createHash("sha256").update(schema.data).digest("hex") : null,
];

function streamed(content) {
  const reader = new McapStreamReader({ decompressHandlers, validateCrcs: true });
  const found = [], channels = new Map(), schemas = new Map();
  for (let at = 0; at < content.length; at += 1000) {
    reader.append(content.subarray(at, at + 1000));
    for (let each; (each = reader.nextRecord()); ) {
      if (each.type === "Schema") schemas.set(each.id, each);
      if (each.type === "Channel") channels.set(each.id, each);
      if (each.type !== "Message") continue;
      const channel = channels.get(each.channelId);
      found.push(told(each, channel, schemas.get(channel.schemaId)));
    }
  }
  if (!reader.done()) throw new Error("the file has no end");
  return found;
}

async function indexed(content) {
  const readable = {
    size: async () => BigInt(content.length),
    read: async (at, count) => content.subarray(Number(at), Number(at + count)),
  };
  const reader = await McapIndexedReader.Initialize({ readable, decompressHandlers });
  const found = [];
  for await (const each of reader.readMessages()) {
    const channel = reader.channelsById.get(each.channelId);
    found.push(told(each, channel, reader.schemasById.get(channel.schemaId)));
  }
  for await (const _ of reader.readMetadata()); // each of them can be read
  for await (const _ of reader.readAttachments());
  return found;
}

async function tried(read, content) {
  try {
    return await read(content);
  } catch (error) {
    return `${error}`;
  }
}

(async () => {
  for (const path of process.argv.slice(2)) {
    const content = fs.readFileSync(path);
    console.log(JSON.stringify([await tried(streamed, content), await tried(indexed, content)]));
  }
})();
