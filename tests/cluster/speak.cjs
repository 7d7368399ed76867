// Runs each line of standard input as a command in a cluster, words with tabs between, and prints each reply as a line.
//
// Argument: ports with commas between. The first word after the command is told to the library as the key.
"use strict";

const readline = require("node:readline");
const { createCluster } = require("redis");

function shown(reply) {
  if (reply === null) return "nil";
  if (!Array.isArray(reply)) return String(reply);
  return reply.map((item) => (Array.isArray(item) ? `[${shown(item)}]` : shown(item))).join(" ");
}

async function main() {
  const rootNodes = process.argv[2].split(",").map((port) => ({ url: `redis://127.0.0.1:${port}` }));
  const cluster = createCluster({ rootNodes });
  cluster.on("error", () => {});
  await cluster.connect();
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const words = line.split("\t");
    try {
      console.log(shown(await cluster.sendCommand(words[1], false, words)));
    } catch (error) {
      console.log(`!${error.message}`);
    }
  }
  await cluster.close();
}

main();
