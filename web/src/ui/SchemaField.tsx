/** A field for each kind of value that a JSON Schema can ask for; what has no field of its own is typed as JSON. */
import { useId, useState } from "react";
import { argumentName, isObject, labelOf, resolve, shapeOf, type Schema } from "../model/schema";

interface Props { name: string; schema: Schema; value: unknown; change: (value: unknown) => void; needed?: boolean; top?: boolean; root?: Schema }

export function SchemaField(props: Props) {
  const root = props.root ?? props.schema;
  const schema = resolve(props.schema, root);
  const given = { ...props, schema, root };
  if (schema.enum) return <Choose {...given} />;
  if (schema.type === "boolean") return <Check {...given} />;
  if (schema.type === "number" || schema.type === "integer") return <Figure {...given} />;
  if (schema.type === "object" && schema.properties) return <Group {...given} />;
  if (schema.type === "string") return <Words {...given} />;
  if (schema.type === undefined && typeof given.value === "string") return <Words {...given} />;
  if (Array.isArray(given.value) && given.value.every((each) => typeof each !== "object")) return <Items {...given} />;
  return <Json {...given} />;
}

const title = ({ name, schema, needed }: Props): string => (schema.title ?? name) + (needed === false ? " (if any)" : "");

function Group(props: Props) {
  const { schema, value, change, root, top } = props;
  const here = isObject(value) ? value : {};
  const needed = (name: string) => (schema.required ? schema.required.includes(name) : true);
  const all = Object.entries(schema.properties ?? {}).filter(([name]) => !isEmptyList(here[name]));
  const names = [...all.filter(([name]) => needed(name)), ...all.filter(([name]) => !needed(name))];
  return (
    <fieldset>
      {!(top && !schema.title) && props.name !== "kwargs" && <legend>{title(props)}</legend>}
      {schema.description && <p className="quiet">{schema.description}</p>}
      {names.map(([name, part]) => (
        <SchemaField
          key={name}
          name={name === "kwargs" ? "kwargs" : labelOf(name)}
          schema={part}
          value={here[name]}
          needed={needed(name)}
          {...(root ? { root } : {})}
          change={(next) => change(without({ ...here, [name]: next }, name, next))}
        />
      ))}
    </fieldset>
  );
}

const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0;

function without(whole: Record<string, unknown>, name: string, value: unknown): Record<string, unknown> {
  if (value !== undefined) return whole;
  const { [name]: _, ...others } = whole;
  return others;
}

function Words(props: Props) {
  const id = useId();
  const text = typeof props.value === "string" ? props.value : "";
  const rows = Math.min(8, Math.max(1, Math.ceil(text.length / 60), text.split("\n").length));
  return (
    <div className="field">
      <label htmlFor={id}>{title(props)}</label>
      {props.schema.description && <p className="quiet">{props.schema.description}</p>}
      <textarea id={id} className="input" rows={rows} value={text} onChange={(event) => props.change(event.target.value)} />
    </div>
  );
}

function Figure(props: Props) {
  const id = useId();
  const [text, setText] = useState(props.value === undefined ? "" : String(props.value));
  const write = (typed: string) => {
    setText(typed);
    const number = Number(typed.replace(",", "."));
    props.change(typed.trim() === "" ? undefined : Number.isNaN(number) ? typed : number);
  };
  return (
    <div className="field">
      <label htmlFor={id}>{title(props)}</label>
      <input id={id} className="input" inputMode="decimal" value={text} onChange={(event) => write(event.target.value)} />
    </div>
  );
}

function Check(props: Props) {
  return (
    <label className="check">
      <input type="checkbox" checked={props.value === true} onChange={(event) => props.change(event.target.checked)} />
      {title(props)}
    </label>
  );
}

function Choose(props: Props) {
  const id = useId();
  const choices = props.schema.enum ?? [];
  const at = choices.findIndex((each) => each === props.value);
  return (
    <div className="field">
      <label htmlFor={id}>{title(props)}</label>
      <select id={id} className="input" value={at} onChange={(event) => props.change(choices[Number(event.target.value)])}>
        <option value={-1}>Choose…</option>
        {choices.map((each, index) => (
          <option key={index} value={index}>
            {props.schema["x-labels"]?.[String(each)] ?? String(each)}
          </option>
        ))}
      </select>
    </div>
  );
}

function Items(props: Props) {
  const items = props.value as unknown[];
  const names = props.schema["x-names"];
  return (
    <fieldset>
      {!names && <legend>{title(props)}</legend>}
      {items.map((each, at) => (
        <SchemaField key={at} name={names ? argumentName(names, at) : `${props.name} ${at + 1}`} schema={props.schema.items ?? shapeOf(each)} value={each} change={(next) => props.change(items.with(at, next))} />
      ))}
    </fieldset>
  );
}

function Json(props: Props) {
  const id = useId();
  const [text, setText] = useState(props.value === undefined ? "" : JSON.stringify(props.value, null, 2));
  const [wrong, setWrong] = useState(false);
  const write = (typed: string) => {
    setText(typed);
    try {
      props.change(typed.trim() ? (JSON.parse(typed) as unknown) : undefined);
      setWrong(false);
    } catch {
      setWrong(true);
    }
  };
  return (
    <div className="field">
      <label htmlFor={id}>{title(props)}, as JSON</label>
      <textarea id={id} className="input mono" rows={4} value={text} aria-invalid={wrong} onChange={(event) => write(event.target.value)} />
      {wrong && <span className="wrong">This is not JSON yet; the last that was is kept.</span>}
    </div>
  );
}
