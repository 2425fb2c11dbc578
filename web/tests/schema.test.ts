import { describe, expect, it } from "vitest";
import { misfit, shapeOf, startOf, waysOf } from "../src/model/schema";

const approval = {
  oneOf: [
    { enum: ["approve", "reject"] },
    { type: "object", properties: { edit: { type: "object", properties: { args: {}, kwargs: {} } } }, required: ["edit"] },
    { type: "object", properties: { respond: { type: "string" } }, required: ["respond"] },
  ],
  "x-labels": { approve: "Do it", reject: "Do not do it" },
  "x-details": { args: [], kwargs: { to: "ann@example.org", amount: 80, express: true } },
};

describe("a question as a card", () => {
  it("of an approval: facts, approve and reject with what they mean, and two forms", () => {
    const ways = waysOf(approval, [["to", "ann@example.org"], ["send_at", "noon"]]);

    expect(ways.buttons).toEqual([
      { value: "approve", label: "Approve", consequence: "Do it" },
      { value: "reject", label: "Reject", consequence: "Do not do it" },
    ]);
    expect(ways.forms.map((form) => form.label)).toEqual(["Edit", "Respond"]);
    expect(ways.facts).toEqual([["To", "ann@example.org"], ["Send at", "noon"]]);
  });

  it("shows what has no name as a text, and leaves out nothing of any value", () => {
    const long = `${"a long value ".repeat(2000)}\nwith its lines`;

    expect(waysOf(approval, [["", "in words"], ["body", long]])).toMatchObject({ text: "in words", facts: [["Body", long]] });
  });

  it("begins an edit with what would be done, each value in its own kind", () => {
    const edit = waysOf(approval).forms[0]!;

    expect(edit.start).toEqual(approval["x-details"]);
    expect(edit.schema.properties?.["kwargs"]?.properties).toMatchObject({ to: { type: "string" }, amount: { type: "number" }, express: { type: "boolean" } });
  });

  it("calls the arguments of a call as its function does, also to edit them", () => {
    const ways = waysOf({ ...approval, "x-details": { args: ["ann@example.org", 3], kwargs: {} }, "x-names": ["send_to"] });

    expect(ways.forms[0]!.schema.properties?.["args"]).toEqual({ "x-names": ["send_to"] });
  });

  it("of few choices is a button each, of many a list", () => {
    expect(waysOf({ enum: ["a", "b"], "x-labels": { a: "Take A" } }).buttons.map((each) => each.label)).toEqual(["Take A", "B"]);
    expect(waysOf({ enum: [1, 2, 3, 4, 5, 6, 7] })).toMatchObject({ buttons: [], forms: [{ label: "Answer" }] });
    expect(waysOf({ type: "boolean" }).buttons.map((each) => each.value)).toEqual([true, false]);
  });

  it("without a schema is answered in words", () => {
    expect(waysOf(null).forms[0]).toMatchObject({ schema: { type: "string" }, wrap: "" });
  });

  it("follows references within itself", () => {
    const ways = waysOf({ $defs: { Who: { enum: ["ann", "bob"] } }, oneOf: [{ $ref: "#/$defs/Who" }] });

    expect(ways.buttons.map((each) => each.value)).toEqual(["ann", "bob"]);
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
