// The question of a tool server, as a form generated from its schema.

import { useId } from "preact/hooks";

interface Field {
  type?: string;
  title?: string;
  description?: string;
  enum?: (string | number)[];
  enumNames?: string[];
  oneOf?: { const: string | number; title?: string }[];
  default?: unknown;
  format?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
}

export interface Question {
  id: string;
  message?: string;
  url?: string;
  schema?: { properties?: Record<string, Field>; required?: string[] };
}

type Given = Record<string, string | boolean>;

const TYPES: Record<string, string> = { email: "email", uri: "url", date: "date", "date-time": "datetime-local" };

export function QuestionForm({ question, given, onInput }: { question: Question; given: Given; onInput: (name: string, value: string | boolean) => void }) {
  const fields = Object.entries(question.schema?.properties ?? {});
  const needed = question.schema?.required ?? [];
  const id = useId();
  return (
    <fieldset class="question">
      {question.message && <legend>{question.message}</legend>}
      {question.url && (
        <p>
          Go to{" "}
          {isWebAddress(question.url) ? (
            <a href={question.url} target="_blank" rel="noreferrer noopener">
              {question.url}
            </a>
          ) : (
            <code>{question.url}</code>
          )}
        </p>
      )}
      {fields.map(([name, field]) => {
        const value = given[name] ?? start(field);
        const own = `${id}-${name}`;
        const options = field.oneOf?.map((one) => [one.const, one.title ?? one.const] as const) ?? field.enum?.map((one, at) => [one, field.enumNames?.[at] ?? one] as const);
        return (
          <div key={name} class="question-field">
            <label for={own}>
              {field.title ?? name}
              {!needed.includes(name) && <span class="quiet"> optional</span>}
            </label>
            {field.type === "boolean" ? (
              <input id={own} type="checkbox" checked={value === true} onChange={(event) => onInput(name, event.currentTarget.checked)} />
            ) : options !== undefined ? (
              <select id={own} required={needed.includes(name)} value={String(value)} onChange={(event) => onInput(name, event.currentTarget.value)}>
                <option value="" />
                {options.map(([one, words]) => (
                  <option key={one} value={String(one)}>
                    {words}
                  </option>
                ))}
              </select>
            ) : (
              <input
                id={own}
                type={isNumber(field) ? "number" : (TYPES[field.format ?? ""] ?? "text")}
                step={field.type === "integer" ? 1 : "any"}
                min={field.minimum}
                max={field.maximum}
                minLength={field.minLength}
                maxLength={field.maxLength}
                required={needed.includes(name)}
                value={String(value)}
                onInput={(event) => onInput(name, event.currentTarget.value)}
              />
            )}
            {field.description && <p class="quiet">{field.description}</p>}
          </div>
        );
      })}
    </fieldset>
  );
}

/** Returns the values of the form in the types of the schemas, without empty optional fields. */
export function contentOf(questions: readonly Question[], given: Given): Record<string, unknown> {
  const content: Record<string, unknown> = {};
  for (const question of questions) {
    for (const [name, field] of Object.entries(question.schema?.properties ?? {})) {
      const value = given[name] ?? start(field);
      const isNeeded = question.schema?.required?.includes(name) ?? false;
      if (field.type === "boolean") content[name] = value === true;
      else if (value !== "" || isNeeded) content[name] = isNumber(field) ? Number(value) : value;
    }
  }
  return content;
}

/** Whether the address is HTTP or HTTPS. A tool server could also send `javascript:` or the scheme of a local program. */
export function isWebAddress(url: string): boolean {
  return /^https?:\/\//i.test(url);
}

function start(field: Field): string | boolean {
  if (field.type === "boolean") return field.default === true;
  return field.default === undefined || field.default === null ? "" : String(field.default);
}

function isNumber(field: Field): boolean {
  return field.type === "number" || field.type === "integer";
}
