/** A question's JSON Schema as fields; and the check before an answer is sent. */
import { ANSWER_WAY } from "../generated/types";
import type { Asked, Way } from "./types";
import { capital } from "./words";

export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  oneOf?: Schema[];
  anyOf?: Schema[];
  "x-labels"?: Record<string, string>;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  minItems?: number;
  maxItems?: number;
  $ref?: string;
  "x-details"?: unknown;
  "x-names"?: string[]; // of the arguments of a call, in their order
}

export type Fact = readonly [name: string, value: string];
/** A way that is filled in: its fields, and what they hold at first. */
export interface Form { way: Way; schema: Schema; start: unknown }

const BUTTONS_MAX = 6; // more choices than that are a list to choose from

/** The ways to answer a question, as the server offers them; many choices of one kind are one way, with a list. */
export function waysOf({ ways }: Asked): Way[] {
  const many = (way: Way): boolean => !way.form && ways.filter((each) => each.part === way.part).length > BUTTONS_MAX;
  return ways.flatMap((way, at) => {
    if (!many(way)) return [way];
    return ways.findIndex((each) => each.part === way.part) === at ? [{ ...ANSWER_WAY, part: way.part }] : [];
  });
}

export function formOf(way: Way, given: unknown): Form {
  if (!isObject(given)) return { way, schema: { type: "string", minLength: 1 }, start: "" };
  const whole = given as Schema;
  const part = alternatives(whole, whole)[way.part] ?? whole;
  if (way.form !== "edit" && way.form !== "respond") return { way, schema: part, start: startOf(part) };
  const schema = resolve(part.properties?.[way.form] ?? {}, whole);
  const shown = whole["x-details"];
  const start = way.form === "edit" && shown !== undefined ? shown : startOf(schema);
  const fits = way.form === "edit" && !hasFields(schema) ? named(shapeOf(start), whole["x-names"]) : schema;
  return { way, schema: fits, start };
}

/** The schemas of which an answer fits one, in the order in which the server counts them. */
function alternatives(part: Schema, whole: Schema | null): Schema[] {
  const several = part.oneOf ?? part.anyOf;
  if (several) return several.flatMap((each) => alternatives(each, whole));
  return whole && part.$ref?.startsWith("#/") ? alternatives(resolve(part, whole), null) : [part]; // from there it may lead in a circle
}

/** The first value of a form: its defaults, and nothing where none are named. */
export function startOf(schema: Schema): unknown {
  if (schema.default !== undefined) return schema.default;
  if (schema.type === "object" || schema.properties)
    return Object.fromEntries(
      Object.entries(schema.properties ?? {}).flatMap(([name, part]) => {
        const start = startOf(part);
        return start === undefined ? [] : [[name, start]];
      }),
    );
  return schema.type === "boolean" ? false : schema.type === "string" ? "" : undefined;
}

/** A schema for a value that has none: what is a number stays a number. */
export function shapeOf(value: unknown): Schema {
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return { type: typeof value };
  if (isObject(value)) {
    const properties = Object.fromEntries(Object.entries(value).map(([name, part]) => [name, shapeOf(part)]));
    return { type: "object", properties };
  }
  return {};
}

/** A call whose arguments have the names that the function gives them. */
function named(schema: Schema, names: string[] | undefined): Schema {
  const args = schema.properties?.["args"];
  return args && names ? { ...schema, properties: { ...schema.properties, args: { ...args, "x-names": names } } } : schema;
}

export const argumentName = (names: readonly string[] | undefined, at: number): string => labelOf(names?.[at] ?? `Argument ${at + 1}`);

function hasFields(schema: Schema): boolean {
  const named = Object.keys(schema.properties ?? {});
  const arguments_ = named.length === 2 && named.includes("args") && named.includes("kwargs");
  return named.length > 0 && !arguments_;
}

/** What it is about, as the server has written it: whole, in the order given, with nothing in it hidden. */
export function aboutOf(facts: readonly Fact[]): { facts: Fact[]; text: string } {
  const named = facts.filter(([name]) => name !== "").map(([name, value]): Fact => [labelOf(name), value]);
  return { facts: named, text: facts.filter(([name]) => name === "").map(([, value]) => value).join("\n") };
}

export const labelOf = (name: string): string => capital(name.replaceAll("_", " "));

/** Follows references within the schema, as far as one level of names goes. */
export function resolve(part: Schema, whole: Schema): Schema {
  if (!part.$ref?.startsWith("#/")) return part;
  let here: unknown = whole;
  for (const key of part.$ref.slice(2).split("/")) here = isObject(here) ? here[key.replaceAll("~1", "/").replaceAll("~0", "~")] : Array.isArray(here) ? here[Number(key)] : undefined;
  return isObject(here) ? (here as Schema) : {};
}

// ── the check ────────────────────────────────────────────────────────────────────────────────

/** The first thing to put right, for a person; null if it fits. The server checks all of it again. */
export function misfit(value: unknown, schema: Schema, name = "This"): string | null {
  const kind = typeMisfit(value, schema, name);
  if (kind) return kind;
  if (schema.enum && !schema.enum.some((each) => same(each, value))) return `${name} must be one of ${schema.enum.join(", ")}.`;
  if (schema.const !== undefined && !same(schema.const, value)) return `${name} must be ${String(schema.const)}.`;
  if (typeof value === "number") return numberMisfit(value, schema, name);
  if (typeof value === "string") return textMisfit(value, schema, name);
  if (Array.isArray(value)) return listMisfit(value, schema, name);
  return isObject(value) ? objectMisfit(value, schema) : null;
}

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

const ARTICLES: Record<string, string> = {
  string: "text", number: "a number", integer: "a whole number", boolean: "yes or no", object: "an object", array: "a list", null: "empty",
};

function typeMisfit(value: unknown, schema: Schema, name: string): string | null {
  if (schema.type === undefined) return null;
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  if (types.some((type) => isOfType(value, type))) return null;
  if (value === undefined || value === "") return `${name} is needed.`;
  return `${name} must be ${types.map((type) => ARTICLES[type] ?? type).join(" or ")}.`;
}

function isOfType(value: unknown, type: string): boolean {
  switch (type) {
    case "integer":
      return Number.isInteger(value);
    case "number":
      return typeof value === "number" && Number.isFinite(value);
    case "array":
      return Array.isArray(value);
    case "object":
      return isObject(value);
    case "null":
      return value === null;
    default:
      return typeof value === type;
  }
}

function numberMisfit(value: number, schema: Schema, name: string): string | null {
  if (schema.minimum !== undefined && value < schema.minimum) return `${name} must be at least ${schema.minimum}.`;
  if (schema.maximum !== undefined && value > schema.maximum) return `${name} must be at most ${schema.maximum}.`;
  if (schema.exclusiveMinimum !== undefined && value <= schema.exclusiveMinimum) return `${name} must be more than ${schema.exclusiveMinimum}.`;
  if (schema.exclusiveMaximum !== undefined && value >= schema.exclusiveMaximum) return `${name} must be less than ${schema.exclusiveMaximum}.`;
  return null;
}

function textMisfit(value: string, schema: Schema, name: string): string | null {
  const length = Array.from(value).length;
  if (schema.minLength && length < schema.minLength) return value ? `${name} needs at least ${schema.minLength} characters.` : `${name} is needed.`;
  if (schema.maxLength !== undefined && length > schema.maxLength) return `${name} may have ${schema.maxLength} characters.`;
  if (schema.pattern && !matches(value, schema.pattern)) return `${name} does not have the form that is asked for.`;
  return null;
}

function matches(value: string, pattern: string): boolean {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true; // a pattern that only the server can read
  }
}

function listMisfit(value: unknown[], schema: Schema, name: string): string | null {
  if (schema.minItems !== undefined && value.length < schema.minItems) return `${name} needs at least ${schema.minItems}.`;
  if (schema.maxItems !== undefined && value.length > schema.maxItems) return `${name} may have ${schema.maxItems}.`;
  for (const [at, each] of value.entries()) {
    const found = schema.items && misfit(each, schema.items, `${name} ${at + 1}`);
    if (found) return found;
  }
  return null;
}

function objectMisfit(value: Record<string, unknown>, schema: Schema): string | null {
  const properties = schema.properties ?? {};
  for (const name of schema.required ?? []) if (value[name] === undefined) return `${labelOf(name)} is needed.`;
  for (const [name, part] of Object.entries(properties)) {
    if (value[name] === undefined) continue;
    const found = misfit(value[name], part, part.title ?? labelOf(name));
    if (found) return found;
  }
  return null;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
