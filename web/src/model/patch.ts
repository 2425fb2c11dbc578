/** RFC 6902 with structural sharing: what a patch does not touch stays the same object, so React leaves it alone. */
export type Operation =
  | { op: "add" | "replace" | "test"; path: string; value: unknown }
  | { op: "remove"; path: string }
  | { op: "move" | "copy"; from: string; path: string };

export class Misfit extends Error {}

type Tree = Record<string, unknown> | unknown[];

export function applyPatch<T>(document: T, patch: readonly Operation[]): T {
  let result: unknown = document;
  for (const operation of patch) result = applyOne(result, operation);
  return result as T;
}

function applyOne(document: unknown, operation: Operation): unknown {
  const path = parts(operation.path);
  switch (operation.op) {
    case "add":
      return change(document, path, (parent, key) => insert(parent, key, operation.value), operation.value);
    case "replace":
      return change(document, path, (parent, key) => put(parent, key, operation.value), operation.value);
    case "remove":
      return change(document, path, take, null);
    case "test":
      if (JSON.stringify(get(document, path)) !== JSON.stringify(operation.value)) throw new Misfit(operation.path);
      return document;
    case "move": {
      const from = parts(operation.from);
      const value = get(document, from);
      const without = change(document, from, take, null);
      return change(without, path, (parent, key) => insert(parent, key, value), value);
    }
    case "copy": {
      const value = get(document, parts(operation.from));
      return change(document, path, (parent, key) => insert(parent, key, value), value);
    }
  }
}

function parts(pointer: string): string[] {
  if (pointer === "") return [];
  return pointer.slice(1).split("/").map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function get(document: unknown, path: string[]): unknown {
  let here = document;
  for (const key of path) here = child(here, key);
  return here;
}

function child(here: unknown, key: string): unknown {
  if (Array.isArray(here)) return here[index(here, key)];
  if (isTree(here) && Object.hasOwn(here, key)) return here[key];
  throw new Misfit(key);
}

function change(
  here: unknown,
  path: string[],
  edit: (parent: Tree, key: string) => void,
  whole: unknown,
): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return whole;
  if (!isTree(here) && !Array.isArray(here)) throw new Misfit(key);
  const copy: Tree = Array.isArray(here) ? here.slice() : { ...here };
  if (rest.length === 0) edit(copy, key);
  else put(copy, key, change(child(here, key), rest, edit, whole));
  return copy;
}

function insert(parent: Tree, key: string, value: unknown): void {
  if (Array.isArray(parent)) parent.splice(key === "-" ? parent.length : index(parent, key, 1), 0, value);
  else parent[key] = value;
}

function put(parent: Tree, key: string, value: unknown): void {
  if (Array.isArray(parent)) parent[index(parent, key)] = value;
  else parent[key] = value;
}

function take(parent: Tree, key: string): void {
  if (Array.isArray(parent)) parent.splice(index(parent, key), 1);
  else delete parent[key];
}

function index(array: unknown[], key: string, beyond = 0): number {
  const at = Number(key);
  if (!/^\d+$/.test(key) || at >= array.length + beyond) throw new Misfit(key);
  return at;
}

function isTree(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
