// Tells stories: those that are named as arguments, or, without any, those that are asked for on standard input, a line each.

import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { complaints, pause, streams, unhandled } from "./client.mjs";

const OPEN_MS = 10_000; // what the last bytes of a stream may take on a busy machine

/** A stream that is left open would hold a Node of its own; a rejection is told after the turn in which it comes. */
async function untilNothingIsOpen() {
  const began = Date.now();
  do await pause(10);
  while (streams.some((stream) => !stream.over) && Date.now() - began < OPEN_MS);
  assert.deepEqual(streams.filter((stream) => !stream.over), [], "every stream is closed");
}

async function tell(stories, name) {
  try {
    await stories[name]();
    await untilNothingIsOpen();
  } finally {
    streams.length = 0; // they are of this story
  }
  assert.deepEqual(complaints.splice(0), [], "the client has nothing to complain about");
  assert.deepEqual(unhandled.splice(0), []);
}

/** Tell what is asked for, and say of each story that it was told or that it has failed. */
export async function tellAll(stories) {
  if (process.argv.length > 2) {
    for (const name of process.argv.slice(2)) await tell(stories, name);
  } else {
    for await (const name of createInterface({ input: process.stdin })) {
      try {
        await tell(stories, name);
        console.log(`told ${name}`);
      } catch (error) {
        complaints.length = unhandled.length = 0; // they are of this story
        console.log(`${error.stack}\nfailed ${name}`);
      }
    }
  }
}
