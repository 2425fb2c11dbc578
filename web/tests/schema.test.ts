import { describe, expect, it } from "vitest";
import { aboutOf, formOf, misfit, shapeOf, startOf, waysOf } from "../src/model/schema";
import type { Way } from "../src/model/types";
import { asks, way } from "./given";

const approval = {
  oneOf: [
    { enum: ["approve", "reject"] },
    { type: "object", properties: { edit: { type: "object", properties: { args: {}, kwargs: {} } } }, required: ["edit"] },
    { type: "object", properties: { respond: { type: "string" } }, required: ["respond"] },
  ],
  "x-labels": { approve: "Do it", reject: "Do not do it" },
  "x-details": { args: [], kwargs: { to: "ann@example.org", amount: 80, express: true } },
};

const edit = way("Edit", { form: "edit", part: 1, send: "Approve as edited" });

describe("a question as a card", () => {
  it("has the ways that the server offers, in their order", () => {
    const ways = [way("Approve", { value: "approve", tone: "good" }), edit, way("Reject", { value: "reject", tone: "bad" })];

    expect(waysOf(asks({ ways }))).toEqual(ways);
  });

  it("calls its facts as people do", () => {
    expect(aboutOf([["to", "ann@example.org"], ["send_at", "noon"]]).facts).toEqual([["To", "ann@example.org"], ["Send at", "noon"]]);
  });

  it("shows what has no name as a text, and leaves out nothing of any value", () => {
    const long = `${"a long value ".repeat(2000)}\nwith its lines`;

    expect(aboutOf([["", "in words"], ["body", long]])).toEqual({ text: "in words", facts: [["Body", long]] });
  });

  it("begins an edit with what would be done, each value in its own kind", () => {
    const { start, schema } = formOf(edit, approval);

    expect(start).toEqual(approval["x-details"]);
    expect(schema.properties?.["kwargs"]?.properties).toMatchObject({ to: { type: "string" }, amount: { type: "number" }, express: { type: "boolean" } });
  });

  it("calls the arguments of a call as its function does, also to edit them", () => {
    const { schema } = formOf(edit, { ...approval, "x-details": { args: ["ann@example.org", 3], kwargs: {} }, "x-names": ["send_to"] });

    expect(schema.properties?.["args"]).toEqual({ "x-names": ["send_to"] });
  });

  it("of few choices is a button each, of many a list", () => {
    const picks = (many: number): Way[] => Array.from({ length: many }, (_, at) => way(String(at), { value: at }));

    expect(waysOf(asks({ ways: picks(6) })).map((each) => each.label)).toEqual(["0", "1", "2", "3", "4", "5"]);
    expect(waysOf(asks({ ways: picks(7) }))).toMatchObject([{ label: "Answer", form: "answer", part: 0 }]);
  });

  it("without a schema is answered in words", () => {
    expect(formOf(way("Answer", { form: "answer" }), null)).toMatchObject({ schema: { type: "string" }, start: "" });
  });

  it("follows references within itself, and in no circle", () => {
    const whole = { $defs: { Who: { anyOf: [{ type: "string" }, { type: "integer" }] } }, oneOf: [{ $ref: "#/$defs/Who" }, { oneOf: [{ $ref: "#/oneOf/1" }] }] };
    const third = { form: "answer", part: 2 } as const;

    expect(formOf(way("Answer", { form: "answer", part: 1 }), whole).schema).toEqual({ type: "integer" });
    expect(formOf(way("Answer", third), whole).schema).toEqual({ $ref: "#/oneOf/1" });
  });
});

describe("the check before an answer is sent", () => {
  const schema = {
    type: "object",
    properties: { name: { type: "string", minLength: 2 }, seats: { type: "integer", minimum: 1, maximum: 12 }, when: { enum: ["noon", "night"] } },
    required: ["name", "seats"],
  };

  it("says what to put right, for a person", () => {
    expect(misfit({ seats: 4 }, schema)).toBe("Name is needed.");
    expect(misfit({ name: "A", seats: 4 }, schema)).toBe("Name needs at least 2 characters.");
    expect(misfit({ name: "Ann", seats: "four" }, schema)).toBe("Seats must be a whole number.");
    expect(misfit({ name: "Ann", seats: 13 }, schema)).toBe("Seats must be at most 12.");
    expect(misfit({ name: "Ann", seats: 4, when: "dawn" }, schema)).toBe("When must be one of noon, night.");
    expect(misfit({ name: "Ann", seats: 4, when: "noon" }, schema)).toBeNull();
  });

  it("leaves to the server what a browser cannot read", () => {
    expect(misfit("x", { type: "string", pattern: "(?P<bad>" })).toBeNull();
  });

  it("starts a form with its defaults", () => {
    expect(startOf({ type: "object", properties: { a: { default: 3 }, b: { type: "string" }, c: { type: "number" } } })).toEqual({ a: 3, b: "" });
    expect(shapeOf([1])).toEqual({});
  });
});
